"""Entrants that stopped early with most of a budget left: facts in, one finding a corner out."""

from __future__ import annotations

from palestra.report.facts import CornerFacts, Facts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import amount_below, named, percent, show_gpu_time, span
from palestra.rules.units import show_dollars

VERSION = 1
TIME_LEFT = 4
"""One part in so many of its own time must have been left."""
BUDGET_LEFT = 2
"""And one part in so many of its GPU-time."""


def detect(facts: Facts) -> list[Finding]:
    """Those that finished inside the window, by the planned end of the running stage."""
    found = []
    for seat in facts.corners:
        if seat.finished is None or seat.joined is None or not facts.window.holds(seat.finished.at):
            continue
        end = facts.start + facts.running if facts.ends < facts.start + facts.running else facts.ends
        left, whole = end - seat.finished.at, end - seat.joined.at
        if seat.gpu is None or seat.api is None or left * TIME_LEFT < whole:
            continue
        if (seat.gpu.limit - seat.gpu.spent) * BUDGET_LEFT >= seat.gpu.limit:
            found.append(_finding(facts, seat, left))
    return found


def _finding(facts: Facts, seat: CornerFacts, left: int) -> Finding:
    assert seat.finished is not None
    assert seat.gpu is not None
    assert seat.api is not None
    name = escape(named(facts, [seat.corner]))
    gpu, api, row = seat.gpu.limit - seat.gpu.spent, seat.api.limit - seat.api.spent, seat.finished.row
    share = percent(gpu, seat.gpu.limit)
    return Finding(
        kind="left_unused",
        version=VERSION,
        about=seat.corner,
        corners=(seat.corner,),
        severity=2,
        consequence=2,
        big="share",
        title=f"Stopped with {facts.unit}-time to spare",
        head=f"{name} stopped with {{share}} of its {facts.unit}-time unused.",
        said=f"{name} was done at {{at}}, {{left}} before the planned end. It leaves {{gpu}} and {{api}} of its credit unused.",
        figures=(
            Figure("share", "share", gpu, share, (*seat.gpu.rows(), row), seat.gpu.limit),
            Figure("at", "moment", seat.finished.at, facts.t(seat.finished.at), (row,)),
            Figure("left", "microseconds", left, span(left), (row,)),
            Figure("gpu", "GPU-microseconds", gpu, show_gpu_time(facts, gpu), seat.gpu.rows()),
            Figure(
                "api", "nano-dollars", api, amount_below(api, seat.api.limit, show_dollars), seat.api.rows()
            ),
        ),
    )
