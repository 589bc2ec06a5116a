"""Who sits where: corners, the agents' open sessions, and how their restarts go."""

from __future__ import annotations

from msgspec.structs import replace

from palestra.events.base import Entry, Event
from palestra.events.corners import (
    EntrantAnnounced,
    EntrantFinished,
    EntrantRemoved,
    EntrantSeated,
    RestartAsked,
    SessionEnded,
    SessionStarted,
    SessionStopAsked,
)
from palestra.events.runs import Refused
from palestra.rules.errors import Corrupt
from palestra.rules.units import SECOND, Moment
from palestra.state.arena import Announced, Corner, Session, State

LONGEST_BACKOFF = 60 * SECOND
BROKE = "credit_spent"
"""The refusal that says no further call can be paid; an agent that ended after it isn't started again."""


KINDS: tuple[type[Event], ...] = (
    EntrantAnnounced, EntrantSeated, EntrantFinished, EntrantRemoved, RestartAsked, SessionStarted, SessionStopAsked,
    SessionEnded, Refused,
)  # fmt: skip


def fold(state: State, entry: Entry) -> None:
    """Take one event of a corner in."""
    match entry.event:
        case EntrantSeated() as event:
            if state.announced.pop(event.corner, None) is None:
                _count(state)
            state.corners[event.corner] = Corner(
                event.corner,
                event.name,
                event.lab,
                event.harness,
                event.model,
                entry.at,
                command=event.command,
            )
        case EntrantAnnounced() as event:
            _count(state)
            state.announced[event.corner] = Announced(
                event.corner,
                event.name,
                event.lab,
                event.harness,
                event.model,
                event.starts,
                event.command,
                event.sealed_name,
            )
        case EntrantRemoved(corner=corner):
            state.announced.pop(corner, None)
            if corner in state.corners:
                _take_out(state, corner, entry.at)
        case RestartAsked(corner=corner):
            state.corners[corner] = replace(
                state.corners[corner], quick_failures=0, broke=False, restart_at=Moment(0)
            )
        case EntrantFinished(corner=corner):
            state.corners[corner] = replace(state.corners[corner], finished=entry.at)
        case Refused(corner=corner, code=code):
            if code == BROKE:
                state.corners[corner] = replace(state.corners[corner], broke=True)
        case _:
            _fold_session(state, entry)


def _fold_session(state: State, entry: Entry) -> None:
    match entry.event:
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


def _count(state: State) -> None:
    """Corners' letters are given out in order and never again."""
    state.counters["run", "corner"] = state.counters.get(("run", "corner"), 0) + 1


def _take_out(state: State, corner: str, at: Moment) -> None:
    seat = state.corners[corner]
    state.nominations.pop(seat.current, None)
    state.corners[corner] = replace(seat, finished=seat.finished or at, removed=True, current="")
