"""The root fold: one event into the whole state, slice by slice; returns the state it was given."""

from __future__ import annotations

from palestra.events.base import Entry, Event
from palestra.events.runs import AlarmCleared, AlarmRaised, Refused, ReportFrozen, RunOpened
from palestra.state import accounts, clock, corners, exams, nominations, queue
from palestra.state.arena import Answered, State

_SLICES = (accounts, clock, corners, queue, nominations, exams)
"""In this order for one event: accounts read an attempt before the queue drops it."""
_FOLDS = {
    kind: tuple(room.fold for room in _SLICES if kind in room.KINDS)
    for kind in {kind for room in _SLICES for kind in room.KINDS}
}


def fold(state: State, entry: Entry) -> State:
    """Take one event in; returns the state it was given."""
    event = entry.event
    state.seq, state.at = entry.seq, entry.at
    for fold_slice in _FOLDS.get(type(event), ()):
        fold_slice(state, entry)
    match event:
        case RunOpened():
            state.opened = event
        case Refused():
            state.refused[event.corner, event.code, event.about] = entry.seq
        case AlarmRaised():
            state.alarms[event.alarm] = event.text
        case AlarmCleared():
            state.alarms.pop(event.alarm, None)
        case ReportFrozen():
            state.reports[event.name] = event.digest
    if entry.request is not None:
        _remember(state, entry, entry.request, event)
    return state


def _remember(state: State, entry: Entry, key: str, event: Event) -> None:
    if (entry.actor, key) in state.answers:
        return
    refusal = (event.code, event.message) if isinstance(event, Refused) else None
    asked = str(getattr(event, "asked", ""))
    state.answers[entry.actor, key] = Answered(type(event).__name__, event.subject, entry.seq, asked, refusal)
