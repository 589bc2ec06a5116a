"""Who sits where: corners, the agents' open sessions, and how their restarts go."""

from __future__ import annotations

from msgspec.structs import replace

from palestra.events.base import Entry, Event
from palestra.events.corners import (
    EntrantFinished,
    EntrantSeated,
    SessionEnded,
    SessionStarted,
    SessionStopAsked,
)
from palestra.events.runs import Refused
from palestra.rules.errors import Corrupt
from palestra.rules.units import SECOND, Moment
from palestra.state.arena import Corner, Session, State

LONGEST_BACKOFF = 60 * SECOND
BROKE = "credit_spent"
"""The refusal that says no further call can be paid; an agent that ended after it isn't started again."""


KINDS: tuple[type[Event], ...] = (
    EntrantSeated, EntrantFinished, SessionStarted, SessionStopAsked, SessionEnded, Refused,
)  # fmt: skip


def fold(state: State, entry: Entry) -> None:
    """Take one event of a corner in."""
    match entry.event:
        case EntrantSeated() as event:
            state.corners[event.corner] = Corner(
                event.corner, event.name, event.lab, event.harness, event.model, entry.at
            )
        case EntrantFinished(corner=corner):
            state.corners[corner] = replace(state.corners[corner], finished=entry.at)
        case Refused(corner=corner, code=code):
            if code == BROKE:
                state.corners[corner] = replace(state.corners[corner], broke=True)
        case SessionStarted() as event:
            state.sessions[event.session] = Session(event.session, event.corner, entry.at)
            state.counters[event.corner, "s"] = state.counters.get((event.corner, "s"), 0) + 1
        case SessionStopAsked() as event:
            state.sessions[event.session] = replace(state.sessions[event.session], stopping=event.why)
        case SessionEnded() as event:
            if state.sessions.pop(event.session, None) is None:
                raise Corrupt(f"session {event.session} ended, but it isn't open")
            corner_now = state.corners[event.corner]
            failures = corner_now.quick_failures + 1 if event.quick else 0
            pause = min(LONGEST_BACKOFF, SECOND << min(failures, 10))
            state.corners[event.corner] = replace(
                corner_now, quick_failures=failures, restart_at=Moment(entry.at + pause)
            )
