"""Ledgers: one account a corner and resource, posted from spend and job events. limit = spent + held + left, always."""

from __future__ import annotations

from typing import Literal

from palestra.events.base import Entry, Event
from palestra.events.corners import EntrantSeated
from palestra.events.jobs import AttemptEnded, AttemptStarted
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.rules.errors import Corrupt
from palestra.state.arena import Account, OpenCall, State

Resource = Literal["api", "gpu"]
API: Resource = "api"
GPU: Resource = "gpu"


KINDS: tuple[type[Event], ...] = (
    EntrantSeated, CallReserved, CallCharged, CallReleased, AttemptStarted, AttemptEnded,
)  # fmt: skip


def fold(state: State, entry: Entry) -> None:
    """Post one event."""
    match entry.event:
        case EntrantSeated(corner=corner, api_credit=credit, gpu_time=gpu_time):
            state.accounts[corner, API] = Account(credit)
            state.accounts[corner, GPU] = Account(gpu_time)
        case CallReserved() as event:
            state.calls[event.call] = OpenCall(
                event.call,
                event.corner,
                event.model,
                event.hold,
                event.input_bound,
                event.output_cap,
                event.asked_cap,
            )
            _post(state, event.corner, API, held=event.hold)
            state.counters[event.corner, "c"] = state.counters.get((event.corner, "c"), 0) + 1
        case CallCharged() as event:
            call = _close(state, event.call)
            _post(state, call.corner, API, held=-call.hold, spent=event.charge)
        case CallReleased() as event:
            call = _close(state, event.call)
            _post(state, call.corner, API, held=-call.hold)
        case AttemptStarted() as event:
            _post(state, event.corner, GPU, held=event.hold)
        case AttemptEnded() as event:
            _post(state, event.corner, GPU, held=-state.attempts[event.attempt].hold, spent=event.charge)


def _close(state: State, call: str) -> OpenCall:
    try:
        return state.calls.pop(call)
    except KeyError:
        raise Corrupt(f"call {call} is settled, but it isn't open") from None


def _post(state: State, corner: str, resource: Resource, *, held: int = 0, spent: int = 0) -> None:
    account = state.accounts.get((corner, resource))
    if account is None:  # the house has no accounts: its work is never charged
        return
    after = Account(account.limit, account.spent + spent, account.held + held)
    if after.held < 0 or after.spent < 0 or after.left < 0:
        raise Corrupt(f"corner {corner}: the {resource} account would become {after}")
    state.accounts[corner, resource] = after
