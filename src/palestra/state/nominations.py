"""Nominations on their way to be judged, and the one a corner that is current; what the vault keeps."""

from __future__ import annotations

from msgspec.structs import replace

from palestra.events.base import Entry, Event
from palestra.events.jobs import JobSubmitted
from palestra.events.nominations import (
    CheckpointSealed,
    CopyFailed,
    CopyKept,
    CopyStarted,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
    NominationWithdrawn,
)  # fmt: skip
from palestra.state.arena import Nomination, State

VALIDATE = "validate:"
"""Purpose of a house job that serves and probes a nomination."""


KINDS: tuple[type[Event], ...] = (
    CheckpointSealed, NominationRequested, CopyStarted, CopyKept, CopyFailed, JobSubmitted, NominationRejected,
    NominationAccepted, NominationWithdrawn,
)  # fmt: skip


def fold(state: State, entry: Entry) -> None:
    """Take one event of a nomination in."""
    match entry.event:
        case CheckpointSealed(corner=corner):
            state.counters[corner, "k"] = state.counters.get((corner, "k"), 0) + 1
        case NominationRequested() as event:
            number = state.counters.get((event.corner, "n"), 0) + 1
            state.counters[event.corner, "n"] = number
            state.nominations[event.nomination] = Nomination(
                event.nomination, event.corner, number, event.artifact, event.path, event.settings, entry.at
            )
        case CopyStarted() as event:
            _change(state, event.nomination, state="copying", copy=event.copy)
        case CopyKept() as event:
            state.kept[event.artifact] = event.inspection
            _change(state, event.nomination, state="kept")
        case CopyFailed():
            pass  # the rejection that follows takes the nomination out
        case JobSubmitted(job=job, purpose=purpose):
            if purpose.startswith(VALIDATE):
                _change(state, purpose.removeprefix(VALIDATE), state="validating", job=job)
        case NominationRejected() as event:
            state.nominations.pop(event.nomination, None)
        case NominationAccepted() as event:
            if event.current:
                state.nominations.pop(state.corners[event.corner].current, None)
                _change(state, event.nomination, state="accepted")
                _point(state, event.corner, event.nomination)
            else:
                state.nominations.pop(event.nomination, None)
        case NominationWithdrawn() as event:
            state.nominations.pop(event.nomination, None)
            if state.corners[event.corner].current == event.nomination:
                _point(state, event.corner, "")


def _change(arena: State, nomination: str, **fields: object) -> None:
    arena.nominations[nomination] = replace(arena.nominations[nomination], **fields)


def _point(state: State, corner: str, nomination: str) -> None:
    state.corners[corner] = replace(state.corners[corner], current=nomination)


def current(state: State, corner: str) -> Nomination | None:
    """The nomination that would be judged now."""
    return state.nominations.get(state.corners[corner].current)
