"""Budgets that would run out before the end: facts in, one finding for each such budget out.

Pace is the used share over the share of an entrant's own time that is gone; both unrounded. The forecast goes on at the
average rate since the entrant's start, and says so (S08).
"""

from __future__ import annotations

from collections.abc import Callable

from palestra.report.facts import Budget, CornerFacts, Facts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.pace import Pace, ahead, places_from_pace, runs_out
from palestra.report.words import named, percent, show_gpu_time, span
from palestra.rules.units import SECOND, rounded, show_dollars

VERSION = 1
EARLIEST = 20
"""Nothing is forecast before one part in so many of its own time is gone."""
LEAD = 20
"""Ahead by less than one part in so many of the whole budget is noise."""
PART, LEAST = 50, 5 * SECOND
"""It must run out earlier than the end by the running time over this, 2.9 h of six days, and by five seconds at least."""


def detect(facts: Facts) -> list[Finding]:
    """Only while the running stage goes on; an entrant that is done has no pace (S46)."""
    if not facts.is_running:
        return []
    found = []
    for seat in facts.corners:
        if seat.pace is None or seat.done:
            continue
        for budget, what, say in (
            (seat.api, "API credit", show_dollars),
            (seat.gpu, f"{facts.unit}-time", lambda amount: show_gpu_time(facts, amount)),
        ):
            if budget is not None and is_ahead(budget, seat.pace):
                finding = _finding(facts, seat, budget, seat.pace, what, say)
                if finding is not None:
                    found.append(finding)
    return found


def is_ahead(budget: Budget, pace: Pace) -> bool:
    """Enough of the time is gone, and the used share is ahead by enough."""
    if pace.gone * EARLIEST < pace.whole or not ahead(budget.spent, budget.limit, pace):
        return False
    lead = budget.spent * pace.whole - pace.gone * budget.limit
    return lead * LEAD >= budget.limit * pace.whole


def _finding(
    facts: Facts, seat: CornerFacts, budget: Budget, pace: Pace, what: str, say: Callable[[int], str]
) -> Finding | None:
    out = runs_out(budget.spent, budget.limit, pace, facts.at)
    if out is None or facts.ends - out < facts.scaled(PART, LEAST):
        return None
    name = escape(named(facts, [seat.corner]))
    rows = budget.rows()
    joined = (seat.joined.row,) if seat.joined else ()
    places = places_from_pace(budget.spent, budget.limit, pace)
    whole = budget.limit * pace.gone
    return Finding(
        kind="ahead_of_pace",
        version=VERSION,
        about=f"{seat.corner}:{'api' if budget is seat.api else 'gpu'}",
        corners=(seat.corner,),
        severity=4 if budget.spent * pace.whole >= 3 * whole // 2 else 3,
        consequence=2,
        big="used",
        title=f"{what} ahead of the even pace",
        head=f"{name} uses its {what} {{ratio}} times as fast as the clock.",
        said=f"{name} has used {{spent}} of {{limit}} when {{gone}} of its time is gone. At its average rate since its start "
        "the rest lasts until {out}, {early} before the end.",
        figures=(
            Figure("used", "share", budget.spent, percent(budget.spent, budget.limit, places), rows, budget.limit),
            Figure("spent", "nano-dollars" if budget is seat.api else "GPU-microseconds", budget.spent, say(budget.spent), rows),
            Figure("limit", "nano-dollars" if budget is seat.api else "GPU-microseconds", budget.limit, say(budget.limit), joined),
            Figure("gone", "share", pace.gone, percent(pace.gone, pace.whole, places), joined, pace.whole),
            Figure("ratio", "ratio", budget.spent * pace.whole, rounded(budget.spent * pace.whole, whole, 1), rows, whole),
            Figure("out", "moment", out, facts.t(out), rows),
            Figure("early", "microseconds", facts.ends - out, span(facts.ends - out), rows),
        ),
    )  # fmt: skip
