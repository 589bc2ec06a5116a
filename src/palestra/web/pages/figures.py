"""Figures and words that pages share: times, units, shares of budgets and time; states in, small structs out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec

from palestra.events.public import Unit, count
from palestra.rules.times import ends_at, paused, share_used
from palestra.rules.units import (
    DAY,
    DOLLAR,
    HOUR,
    MINUTE,
    SECOND,
    Moment,
    rounded,
    show_dollars,
    show_duration,
    show_t,
)
from palestra.state.accounts import API, GPU
from palestra.state.arena import Account, State
from palestra.state.catalog import Catalog

SHORT = 3 * HOUR
"""Competitions shorter than this show seconds in T+."""
_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()


class Scale(msgspec.Struct, frozen=True):
    """How a run's money and GPU-time are written, the same in every row: fit for its allowance."""

    heading: str
    """`GPU-hours`, `Slot-minutes`."""
    short: str
    whole: int
    places: int
    cents: int

    def time(self, amount: int) -> str:
        """GPU-microseconds as a bare number."""
        return rounded(amount, self.whole, self.places)

    def dollars(self, amount: int) -> str:
        """Nano-dollars."""
        return show_dollars(amount, self.cents)

    def allowed_time(self, amount: int) -> str:
        """An allowance, without decimals where it has none."""
        return f"{amount // self.whole:,}" if amount % self.whole == 0 else self.time(amount)


class Meter(msgspec.Struct, frozen=True):
    """A budget: what is spent and held of it, in per cent, and where the even pace stands; None: no pace."""

    spent: str
    limit: str
    used: float
    held: float
    held_shown: str
    pace: float | None
    ahead: bool
    left: str


def t(state: State, at: int | None) -> str:
    """T+ of an instant."""
    return "" if at is None else show_t(at, state.clock.start, seconds=is_short(state))


def is_short(state: State) -> bool:
    """Whether seconds matter in this competition."""
    return state.rules.stages.running < SHORT


def unit_of(state: State) -> Unit:
    """`slot` on machines without GPUs."""
    return "slot" if any(node.gpu_kind == "slot" for node in state.rules.nodes) else "GPU"


def scale_of(state: State) -> Scale:
    """By the allowance, so that nothing spent prints as zero for long, and columns can be compared."""
    allowance, unit = state.rules.allowance, unit_of(state)
    cents = 2 if allowance.api_credit >= 10 * DOLLAR else 4
    noun = unit if unit == "GPU" else unit.capitalize()
    if allowance.gpu_time >= HOUR:
        return Scale(f"{noun}-hours", f"{unit}-h", HOUR, 1 if allowance.gpu_time >= 100 * HOUR else 2, cents)
    return Scale(f"{noun}-minutes", f"{unit}-min", MINUTE, 2, cents)


def word(number: int) -> str:
    """Small numbers as words."""
    return _NUMBERS[number] if 0 <= number < len(_NUMBERS) else f"{number:,}"


def plural(number: int, noun: str) -> str:
    """`two jobs`."""
    return f"{word(number)} {noun}{'' if number == 1 else 's'}"


def capital(text: str) -> str:
    """The first letter large, the rest left alone."""
    return text[:1].upper() + text[1:]


def units(number: int, unit: str) -> str:
    """`2 slots`."""
    return count(number, unit)


def span(length: int) -> str:
    """A duration with at most two parts, as people say it: `4 h 18 min`, `57 s`."""
    length = max(0, length)
    if length >= DAY:
        return show_duration(length // HOUR * HOUR)
    if length >= HOUR:
        return show_duration(length // MINUTE * MINUTE)
    return show_duration(length // SECOND * SECOND)


def local(state: State, at: int) -> str:
    """An instant in the competition's own zone."""
    there = datetime.fromtimestamp(at / 1e6, UTC).astimezone(ZoneInfo(state.rules.zone))
    seconds = ":%S" if is_short(state) else ""
    return f"{there.day} {there:%B %Y, %H:%M{seconds} %Z}"


def running_end(state: State, catalog: Catalog, at: int) -> Moment:
    """When the running stage ends or ended; while paused under `extend`, as if it went on now."""
    if "closing" in catalog.stages:
        return catalog.stages["closing"]
    stages, clock = state.rules.stages, state.clock
    return ends_at(clock.start, stages.running, clock.pauses, stages.pause, at)


def share_gone(state: State, catalog: Catalog, corner: str, at: int) -> float | None:
    """The part of an entrant's own time that is gone, 0 to 1; None before it began (S58) and once it is done (S46)."""
    seat = state.corners[corner]
    if seat.finished is not None:
        return None
    joined = Moment(max(seat.seated, state.clock.start))
    end = running_end(state, catalog, at)
    gone, whole = share_used(joined, end, at)
    if state.rules.stages.pause == "extend":
        gone = type(gone)(gone - paused(state.clock.pauses, joined, min(at, end)))
        whole = type(whole)(whole - paused(state.clock.pauses, joined, end))
    return min(1.0, gone / whole) if whole > 0 else None


def meters(state: State, catalog: Catalog, corner: str, at: int) -> tuple[Meter, Meter]:
    """API credit and GPU-time of a corner."""
    pace = share_gone(state, catalog, corner, at) if state.clock.stage == "running" else None
    scale = scale_of(state)
    return (
        _meter(state.accounts[corner, API], pace, scale.dollars, show_dollars),
        _meter(state.accounts[corner, GPU], pace, scale.time, scale.allowed_time),
    )


def _meter(
    account: Account, pace: float | None, say: Callable[[int], str], allow: Callable[[int], str]
) -> Meter:
    limit = max(1, account.limit)
    used = account.spent / limit
    return Meter(
        spent=say(account.spent),
        limit=allow(account.limit),
        used=per_cent(used),
        held=per_cent(account.held / limit),
        held_shown=say(account.held) if account.held else "",
        pace=None if pace is None else per_cent(pace),
        ahead=pace is not None and used > pace,
        left=say(account.left),
    )


def per_cent(share: float) -> float:
    """For widths: 0 to 100 with one decimal."""
    return round(100 * min(1.0, max(0.0, share)), 1)
