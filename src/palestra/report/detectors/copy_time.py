"""Copies that took long, and nominations not yet kept: facts in, findings out. Requested and kept are separate times (S04)."""

from __future__ import annotations

from palestra.report.facts import RULES, Facts, NominationFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import named, plural, span
from palestra.rules.units import SECOND, Micros, show_size

VERSION = 1
PART, LEAST = 100, 2 * SECOND
"""Long is at least the running time over this, 86 min of six days, and never under two seconds."""
TIMES = 3
"""And at least so many times the middle one of the other copies."""


def detect(facts: Facts) -> list[Finding]:
    """Copies that ended inside the window, and those that hadn't at its end."""
    long = facts.scaled(PART, LEAST)
    found = []
    for one in facts.nominations:
        if one.again or one.state in ("withdrawn", "rejected"):
            continue
        if one.copied is None:
            if facts.at - one.requested.at >= long:
                found.append(_waiting(facts, one, long))
        elif facts.window.holds(one.copied.at):
            others = [took(other) for other in facts.nominations if other is not one and _was_copied(other)]
            if took(one) >= max(long, TIMES * middle_of(others or [Micros(0)])):
                found.append(_slow(facts, one, others, long))
    return found


def took(one: NominationFacts) -> Micros:
    """From the request until it was kept."""
    assert one.copied is not None
    return Micros(one.copied.at - one.requested.at)


def middle_of(spans: list[Micros]) -> Micros:
    """The median; of two in the middle the lower one."""
    return sorted(spans)[(len(spans) - 1) // 2]


def _was_copied(one: NominationFacts) -> bool:
    return one.copied is not None and not one.again


def _slow(facts: Facts, one: NominationFacts, others: list[Micros], long: Micros) -> Finding:
    assert one.copied is not None
    name = escape(named(facts, [one.corner]))
    figures = [
        Figure("took", "microseconds", took(one), span(took(one)), (one.requested.row, one.copied.row)),
        Figure("sent", "moment", one.requested.at, facts.t(one.requested.at), (one.requested.row,)),
        Figure("kept", "moment", one.copied.at, facts.t(one.copied.at), (one.copied.row,)),
        Figure("size", "bytes", one.size, show_size(one.size), (one.requested.row,)),
    ]
    said = f"{name} sent {one.nomination}, {{size}}, at {{sent}}; it was kept at {{kept}}, {{took}} later."
    if others:
        middle = middle_of(others)
        rows = tuple(
            row for other in facts.nominations if other is not one and _was_copied(other) and other.copied
            for row in (other.requested.row, other.copied.row)
        )  # fmt: skip
        figures.append(Figure("middle", "microseconds", middle, span(middle), rows))
        count = plural(len(others), "other copy", "other copies")
        figures.append(Figure("others", "count", len(others), count, rows))
        said += " The middle one of {others} took {middle}."
    figures.append(Figure("long", "microseconds", long, span(long), RULES))
    said += " Long here is {long} and more."
    return Finding(
        kind="copy_time",
        version=VERSION,
        about=one.nomination,
        corners=(one.corner,),
        severity=2,
        consequence=2,
        big="took",
        title="A copy that took long",
        head=f"{name} waited {{took}} for a copy of {{size}}.",
        said=said,
        figures=tuple(figures),
    )


def _waiting(facts: Facts, one: NominationFacts, long: Micros) -> Finding:
    name = escape(named(facts, [one.corner]))
    since = Micros(facts.at - one.requested.at)
    rows = (one.requested.row,)
    return Finding(
        kind="copy_time",
        version=VERSION,
        about=one.nomination,
        corners=(one.corner,),
        severity=3,
        consequence=3,
        big="since",
        title="Nominated, not yet kept",
        head=f"{name} has nominated, and {{since}} later the copy isn’t there.",
        said=f"{name} sent {one.nomination}, {{size}}, at {{sent}}; {{since}} later it isn’t kept, so it can’t be judged yet. "
        "Long here is {long} and more.",
        figures=(
            Figure("since", "microseconds", since, span(since), rows),
            Figure("sent", "moment", one.requested.at, facts.t(one.requested.at), rows),
            Figure("size", "bytes", one.size, show_size(one.size), rows),
            Figure("long", "microseconds", long, span(long), RULES),
        ),
    )
