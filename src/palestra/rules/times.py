"""The rules of time, pure: instants, lengths and pauses in; ends, time used, day windows and T+ out.

T+ counts from the competition's start through pauses and downtime and never stands still. Time *used* is what a stage's
length is measured in: under `extend` it stands still while paused, so the end moves; under `absorb` it doesn't.
Windows are half-open: the start belongs to them, the end doesn't. An act at the end's own instant is too late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from palestra.rules.competition import PauseRule
from palestra.rules.errors import BadInput
from palestra.rules.units import DAY, SECOND, Micros, Moment

Pauses = Sequence[tuple[Moment, Moment | None]]
"""In order and apart from each other; None: still paused."""
Window = tuple[Moment, Moment]

_T = re.compile(r"T([+-])([0-9]{1,6}):([0-5][0-9])(?::([0-5][0-9]))?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_t(text: object, start: Moment, field: str) -> Moment:
    """`T+78:42` or `T+0:01:23` as an instant: what `show_t` writes."""
    found = _T.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found:
        raise BadInput(field, text, "hours and minutes since the start, for example T+78:42 or T+0:01:23")
    span = (int(found[2]) * 3_600 + int(found[3]) * 60 + int(found[4] or 0)) * SECOND
    return Moment(start + (-span if found[1] == "-" else span))


def show_utc(at: int) -> str:
    """An instant with its date and zone: `2026-12-01 15:00:00Z`; with microseconds only where it has some."""
    text = (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat(" ")
    return f"{text}Z"


def paused(pauses: Pauses, since: int, at: int) -> Micros:
    """How much of [since, at) was paused."""
    inside = (min(at if end is None else end, at) - max(start, since) for start, end in pauses)
    return Micros(sum(span for span in inside if span > 0))


def used(start: Moment, pauses: Pauses, rule: PauseRule, at: int) -> Micros:
    """The time of a stage used up by `at`, 0 before its start: what a limit is compared with (F55)."""
    gone = max(0, at - start)
    return Micros(gone - paused(pauses, start, at) if rule == "extend" else gone)


def ends_at(start: Moment, length: Micros, pauses: Pauses, rule: PauseRule, at: int) -> Moment:
    """When a stage of this length ends, by the pauses known at `at`; one still open has moved the end until `at`."""
    end = start + length
    if rule == "extend":
        for began, over in pauses:
            if began >= end:
                break  # the stage was over by then
            span = (at if over is None else over) - max(began, start)
            end += max(0, span)
    return Moment(end)


def in_time(at: int, end: int) -> bool:
    """One microsecond before the end is in time, the end itself isn't (F53)."""
    return at < end


def counts(requested: int, kept: int | None, running_end: int, closing_end: int) -> bool:
    """Whether a nomination counts: requested while running, its copy kept before closing ends (F54)."""
    return in_time(requested, running_end) and kept is not None and in_time(kept, closing_end)


def left(at: int, end: int) -> Micros:
    """What is left until the end, never less than nothing; a late joiner has the same end as all (S53)."""
    return Micros(max(0, end - at))


def share_used(joined: Moment | None, end: int, at: int) -> tuple[Micros, Micros]:
    """(elapsed, whole) of an entrant's own time; (0, 0) for one who hasn't started, which `show_share` shows as `-` (S58)."""
    if joined is None or at < joined:
        return Micros(0), Micros(0)
    return Micros(max(0, min(at, end) - joined)), Micros(max(0, end - joined))


def day_of(at: int, start: Moment) -> int:
    """The competition's day, from 1; 0 and less before the start."""
    return (at - start) // DAY + 1


def day_window(day: int, start: Moment) -> Window:
    """[T+24(day-1)h, T+24day h)."""
    return Moment(start + (day - 1) * DAY), Moment(start + day * DAY)


def day_windows(start: Moment, end: int) -> Iterator[Window]:
    """The windows of all days of [start, end); the last one is cut at the end."""
    for day in range(1, day_of(end - 1, start) + 1):
        since, until = day_window(day, start)
        yield since, Moment(min(until, end))


def own_window(window: Window, joined: Moment | None) -> Window | None:
    """The part of a window an entrant was there for; None, shown blank and not as 0, when it wasn't there at all."""
    if joined is None or joined >= window[1]:
        return None
    return Moment(max(joined, window[0])), window[1]


class Anchor(msgspec.Struct, frozen=True):
    """The run's clock, tied to the machine's boot time at start, so that a step of the wall clock moves nothing (F56)."""

    at: Moment
    boot: Micros
    """The machine's time since boot at that instant, suspension included."""

    def read(self, boot: int) -> Moment:
        """Now, by the time since boot."""
        return Moment(self.at + max(0, boot - self.boot))

    def drift(self, boot: int, wall: int) -> Micros:
        """How far the wall clock is ahead of ours; negative: behind."""
        return Micros(wall - self.read(boot))


def anchor(wall: int, boot: int, last: int) -> Anchor:
    """Tie the clock at a server's start: never earlier than the journal's last instant."""
    return Anchor(Moment(max(wall, last)), Micros(boot))
