"""What must be said beside a name: a corner's facts in, small words out."""

from __future__ import annotations

import msgspec

from palestra.report.facts import CornerFacts, Facts


class Badge(msgspec.Struct, frozen=True):
    """A word, and how it looks."""

    text: str
    style: str = ""


def badges(facts: Facts, seat: CornerFacts) -> tuple[Badge, ...]:
    """Alias, own start, done, taken out."""
    found = []
    if seat.alias:
        found.append(Badge("Alias", "alias"))
    if seat.joined is None and not seat.removed:
        found.append(Badge(f"Starts {facts.t(seat.starts)}" if seat.starts else "Not started", "new"))
    if seat.late and seat.joined is not None:
        found.append(Badge(f"Since {facts.t(seat.joined.at)}", "new"))
    if seat.removed is not None:
        found.append(Badge(f"Taken out {facts.t(seat.removed.at)}"))
    elif seat.finished is not None:
        found.append(Badge(f"Done {facts.t(seat.finished.at)}"))
    return tuple(found)
