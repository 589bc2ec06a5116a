"""The window of a report: what was asked for in words in, a half-open stretch of the run out."""

from __future__ import annotations

import msgspec

from palestra.rules.errors import BadInput
from palestra.rules.times import day_window, read_t
from palestra.rules.units import Moment, show_t


class Asked(msgspec.Struct, frozen=True):
    """What to report on: a day, two instants as T+, or by default everything there is."""

    since: str = ""
    until: str = ""
    day: int | None = None
    upto: int | None = None
    """The last row to read: with it, a report comes out the same however far the record has gone on since."""


class Window(msgspec.Struct, frozen=True):
    """[since, until): the start belongs to it, the end doesn't (S86)."""

    since: Moment
    until: Moment | None
    """None: up to the last row that there is."""
    name: str
    slug: str
    """What the file is called."""

    def holds(self, at: int) -> bool:
        """Whether an instant is inside."""
        return self.since <= at and self.before_end(at)

    def before_end(self, at: int) -> bool:
        """Whether an instant is before the end; what is before the start counts towards totals."""
        return self.until is None or at < self.until


def resolve(asked: Asked, start: Moment, first: Moment, *, seconds: bool) -> Window:
    """What was asked for, in a run that starts at `start` and whose first row is of `first`; `BadInput` names the option."""
    if asked.day is not None:
        if asked.day < 1:
            raise BadInput("--day", asked.day, "days are counted from 1")
        if asked.since or asked.until:
            raise BadInput("--day", asked.day, "give either a day or --from and --to")
        since, until = day_window(asked.day, start)
        return Window(since, until, f"Day {asked.day}", f"day-{asked.day}")
    if not asked.since and not asked.until:
        return Window(min(first, start), None, "The whole run", "whole-run")
    since = read_t(asked.since, start, "--from") if asked.since else min(first, start)
    if not asked.until:
        shown = show_t(since, start, seconds=seconds)
        return Window(since, None, f"From {shown} on", f"{_slug(shown)}-on")
    until = read_t(asked.until, start, "--to")
    if until <= since:
        raise BadInput(
            "--to", asked.until, f"a window ends after it begins, at {show_t(since, start, seconds=seconds)}"
        )
    begin, end = show_t(since, start, seconds=seconds), show_t(until, start, seconds=seconds)
    return Window(since, until, f"{begin} to {end}", f"{_slug(begin)}-to-{_slug(end)}")


def _slug(shown: str) -> str:
    return shown.replace("+", "").replace(":", "").lower()
