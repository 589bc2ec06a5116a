"""Events of corners and of the agents that sit in them."""

from __future__ import annotations

from typing import ClassVar

from palestra.events.base import Event
from palestra.rules.units import GpuMicros, Moment, NanoDollars


class EntrantSeated(Event, frozen=True):
    """An entrant took a corner with its allowances. Under an alias the true name is only a commitment."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    name: str
    lab: str
    harness: str
    model: str
    api_credit: NanoDollars
    gpu_time: GpuMicros
    sealed_name: str = ""
    command: tuple[str, ...] = ()


class EntrantAnnounced(Event, frozen=True):
    """An entrant will take the next free corner, from `starts` on: told before it starts."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    name: str
    lab: str
    harness: str
    model: str
    starts: Moment
    by: str
    command: tuple[str, ...] = ()
    sealed_name: str = ""
    asked: str = ""


class EntrantRemoved(Event, frozen=True):
    """An organiser took an entrant out: its processes end, and nothing of it is judged."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    by: str
    reason: str
    asked: str = ""


class TokenRotated(Event, frozen=True):
    """A corner's token was replaced; the old one opens nothing any more."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    by: str
    asked: str = ""


class RestartAsked(Event, frozen=True):
    """An organiser wants a corner's agent started anew; its failures so far are forgiven."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    by: str
    reason: str
    asked: str = ""


class EntrantFinished(Event, frozen=True):
    """An entrant is done for good; its current nomination stands."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    note: str = ""
    asked: str = ""


class SessionStarted(Event, frozen=True):
    """One life of an agent's process begins."""

    SUBJECT: ClassVar[str] = "session"
    session: str
    corner: str
    harness: str


class SessionStopAsked(Event, frozen=True):
    """The arena wants an agent's process gone."""

    SUBJECT: ClassVar[str] = "session"
    session: str
    corner: str
    why: str


class SessionEnded(Event, frozen=True):
    """One life of an agent's process is over."""

    SUBJECT: ClassVar[str] = "session"
    session: str
    corner: str
    exit_code: int | None
    cause: str
    """`exited`, `stopped` (by the arena), `lost` (gone without a trace)."""
    quick: bool
    """Ended on its own within the time that counts as a failure to start."""
