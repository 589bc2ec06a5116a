"""A time zone as a table: an instant in, the local date and time out, without reading the machine's own tables."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from palestra.rules.times import EPOCH
from palestra.rules.units import Moment

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """From this instant on, local time is so many seconds ahead of UTC and has this short name."""

    since: Moment
    ahead: int
    name: str


class Zone(msgspec.Struct, frozen=True):
    """One zone over the time a report is about, changes in order; before the first one UTC holds."""

    name: str
    changes: tuple[Change, ...] = ()

    def show(self, at: int, *, seconds: bool = False) -> str:
        """`1 December 2026, 15:02 UTC`."""
        now = Change(Moment(0), 0, "UTC")
        for change in self.changes:
            if change.since <= at:
                now = change
        there = EPOCH + timedelta(microseconds=at) + timedelta(seconds=now.ahead)
        clock = f"{there:%H:%M:%S}" if seconds else f"{there:%H:%M}"
        return f"{there.day} {_MONTHS[there.month - 1]} {there.year}, {clock} {now.name}"
