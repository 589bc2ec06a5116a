"""Time limits misread: jobs ended by their own limit, and limits that couldn't be read; facts in, one finding a corner out."""

from __future__ import annotations

from palestra.report.facts import Facts, JobFacts, RefusalFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import named, own, plural, times

VERSION = 1
MANY = 3
"""So many make a finding; in competitions of under three hours one does."""
CODES = ("time_limit_unreadable", "bad_input", "time_over_limit")
"""Refusals about the field `time` that tell of a limit misread; what is left of the stage or budget is another matter."""


def detect(facts: Facts) -> list[Finding]:
    """Ends and refusals inside the window."""
    least = 1 if facts.short else MANY
    found = []
    for seat in facts.corners:
        cut = [job for job in facts.ended_of(seat.corner) if job.end == "timed_out"]
        refused = [
            one
            for one in facts.refusals
            if one.corner == seat.corner and one.about == "time" and one.code in CODES
        ]
        if len(cut) + sum(one.times for one in refused) >= least:
            found.append(_finding(facts, seat.corner, cut, refused))
    return found


def _finding(facts: Facts, corner: str, cut: list[JobFacts], refused: list[RefusalFacts]) -> Finding:
    name = escape(named(facts, [corner]))
    turned_down = sum(one.times for one in refused)
    cut_rows = tuple(job.ended.row for job in cut if job.ended)
    no_rows = tuple(row for one in refused for row in one.rows)
    all_of = len(cut) + turned_down
    figures = [Figure("times", "count", all_of, times(all_of), (*cut_rows, *no_rows))]
    parts = []
    if cut:
        was, limit = ("was", "its own limit") if len(cut) == 1 else ("were", "their own limits")
        figures.append(Figure("cut", "count", len(cut), plural(len(cut), "job"), cut_rows))
        parts.append(f"{{cut}} {was} ended by {limit}")
    if refused:
        was = "was" if turned_down == 1 else "were"
        figures.append(Figure("refused", "count", turned_down, plural(turned_down, "request"), no_rows))
        parts.append(f"{{refused}} {was} turned down for the limit asked for")
    said = f"Of {name}, {' and '.join(parts)}."
    if refused and refused[0].message:
        said += f" The first answer was “{escape(own(refused[0].message))}”."
    return Finding(
        kind="time_limit",
        version=VERSION,
        about=corner,
        corners=(corner,),
        severity=3 if all_of >= MANY else 2,
        consequence=2,
        big="times",
        title="Time limits misread" if refused or all_of > 1 else "Cut at its time limit",
        head=f"{name} asked for a time limit that was turned down{'' if all_of == 1 else ', {times}'}."
        if not cut
        else f"{name} ran into its time limit{'' if all_of == 1 else ' {times}'}.",
        said=said,
        figures=tuple(figures),
    )
