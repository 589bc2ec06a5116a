"""Nominations that were the base model again: facts in, one finding a corner out."""

from __future__ import annotations

from palestra.report.facts import Facts, NominationFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import listed, named, own, plural

VERSION = 1
CODE = "unchanged_copy"


def detect(facts: Facts) -> list[Finding]:
    """Those rejected inside the window."""
    found = []
    for seat in facts.corners:
        mine = [
            one for one in facts.nominations
            if one.corner == seat.corner and one.code == CODE and one.decided and facts.window.holds(one.decided.at)
        ]  # fmt: skip
        if mine:
            found.append(_finding(facts, seat.corner, mine))
    return found


def _finding(facts: Facts, corner: str, mine: list[NominationFacts]) -> Finding:
    name = escape(named(facts, [corner]))
    first = mine[0]
    rows = tuple(
        row for one in mine for row in (one.requested.row, one.decided.row if one.decided else 0) if row
    )
    times = Figure("times", "count", len(mine), plural(len(mine), "checkpoint"), rows)
    at = Figure("at", "moment", first.requested.at, facts.t(first.requested.at), (first.requested.row,))
    which = listed(one.nomination for one in mine)
    figures = [at, times]
    said = f"{name} put up {{times}}, {which}, at {{at}}, with the weights of the base model bit for bit: nothing was trained."
    made_by = [
        job for job in facts.jobs if job.corner == corner and job.ended and job.ended.row < first.requested.row
    ]  # fmt: skip
    if made_by and made_by[-1].end == "completed" and made_by[-1].ended:
        job = made_by[-1]
        figures.append(Figure("job", "text", 0, job.job, (made_by[-1].ended.row,)))
        said += f" The job before it, {{job}} “{escape(own(job.name, 40))}”, had ended as completed."
    else:
        said += " What was nominated before stands."
    return Finding(
        kind="unchanged_copy",
        version=VERSION,
        about=corner,
        corners=(corner,),
        severity=4,
        consequence=3,
        big="at",
        title="A trained model that wasn’t",
        head=f"{name} nominated the base model it had started from.",
        said=said,
        figures=tuple(figures),
    )
