"""The even pace: an entrant's own time and a budget in; ahead or not, and when it would run out, all in whole numbers out.

Own time runs from an entrant's own start to the common end (S53, S87). Under the rule `extend` it stands still in pauses.
"""

from __future__ import annotations

import msgspec

from palestra.rules.competition import PauseRule
from palestra.rules.times import Pauses, paused, share_used
from palestra.rules.units import Micros, Moment, places_apart


class Pace(msgspec.Struct, frozen=True):
    """How much of an entrant's own time is gone, in microseconds."""

    gone: Micros
    whole: Micros


def own_pace(joined: Moment, end: int, at: int, pauses: Pauses, rule: PauseRule) -> Pace | None:
    """None before it began, or where it has no time at all: there is nothing to divide by (S58)."""
    gone, whole = share_used(joined, end, at)
    if rule == "extend":
        gone = Micros(gone - paused(pauses, joined, min(at, end)))
        whole = Micros(whole - paused(pauses, joined, end))
    return Pace(gone, whole) if whole > 0 else None


def ahead(used: int, limit: int, pace: Pace) -> bool:
    """Used share against the share of time gone, unrounded: 167.0 of 1,000 is behind 24.2 of 144 (S09)."""
    return used * pace.whole > pace.gone * limit


def runs_out(used: int, limit: int, pace: Pace, at: int) -> Moment | None:
    """When the budget is used up at the entrant's average rate since its start; None when nothing was used (S08).

    90.78 of 300 in 24.2 h goes on for 24.2 h x (300 - 90.78) / 90.78 more, to T+79:58.
    """
    if used <= 0 or pace.gone <= 0:
        return None
    return Moment(at + pace.gone * max(0, limit - used) // used)


def places_from_pace(used: int, limit: int, pace: Pace | None, places: int = 1) -> int:
    """Enough decimals for a share to be seen on its own side of the pace: 16.70 % beside 16.81 % (S09)."""
    if pace is None or limit <= 0:
        return places
    ratios = [(100 * used, limit), (100 * pace.gone, pace.whole)]
    return places_apart(ratios, places)
