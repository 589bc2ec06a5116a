"""The ledgers counted a second time, from the events alone and by other code than the folds; differences are told by row."""

from __future__ import annotations

import msgspec

from palestra.events.base import Entry
from palestra.events.corners import EntrantSeated
from palestra.events.jobs import AttemptEnded, AttemptStarted
from palestra.events.runs import RunOpened
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.rules.errors import Corrupt
from palestra.rules.prices import Price, ceiling, cost
from palestra.state.accounts import API, GPU
from palestra.state.arena import Account, State
from palestra.state.queue import HOUSE


class _Sum(msgspec.Struct):
    limit: int = 0
    spent: int = 0
    held: dict[str, int] = {}


class Audit:
    """Feed it every entry in order, with the state as folded up to and including that entry."""

    def __init__(self) -> None:
        self._prices: dict[str, Price] = {}
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._calls: dict[str, CallReserved] = {}
        self._attempts: dict[str, AttemptStarted] = {}
        self.charges = 0
        """Charges that were computed again."""

    def check(self, entry: Entry, state: State) -> None:
        """`Corrupt` names the row and the figure that doesn't agree."""
        touched = self._post(entry)
        if touched is None:
            return
        theirs, mine = state.accounts[touched], self._sums[touched]
        held = sum(mine.held.values())
        if theirs != Account(mine.limit, mine.spent, held):
            raise Corrupt(
                f"row {entry.seq}: {_name(touched)} says {theirs.spent} spent and {theirs.held} held of {theirs.limit}, "
                f"counted from the events it is {mine.spent} spent and {held} held of {mine.limit}"
            )
        if mine.spent + held > mine.limit:
            raise Corrupt(f"row {entry.seq}: {_name(touched)} goes over its limit of {mine.limit}")

    def _post(self, entry: Entry) -> tuple[str, str] | None:
        match entry.event:
            case RunOpened(rules=rules):
                self._prices = {model.name: model.price for model in rules.models}
            case EntrantSeated() as event:
                self._sums[event.corner, API] = _Sum(event.api_credit)
                self._sums[event.corner, GPU] = _Sum(event.gpu_time)
            case CallReserved() as event:
                self._expect(
                    entry, event.hold, ceiling(self._prices[event.model], event.input_bound, event.output_cap)
                )
                self._calls[event.call] = event
                self._sums[event.corner, API].held[event.call] = event.hold
                return event.corner, API
            case CallCharged() as event:
                self._expect(entry, event.charge, self._owed(event))
                self._sums[event.corner, API].held.pop(event.call)
                self._sums[event.corner, API].spent += event.charge
                return event.corner, API
            case CallReleased() as event:
                self._calls.pop(event.call)
                self._sums[event.corner, API].held.pop(event.call)
                return event.corner, API
            case AttemptStarted() as event if event.corner != HOUSE:
                self._attempts[event.attempt] = event
                self._expect(entry, event.hold, len(event.gpus) * event.limit)
                self._sums[event.corner, GPU].held[event.attempt] = event.hold
                return event.corner, GPU
            case AttemptEnded() as event if event.corner != HOUSE:
                self._expect(entry, event.charge, self._used(event))
                self._sums[event.corner, GPU].held.pop(event.attempt)
                self._sums[event.corner, GPU].spent += event.charge
                return event.corner, GPU
        return None

    def _owed(self, event: CallCharged) -> int:
        call = self._calls.pop(event.call)
        if event.estimated:
            return call.hold
        return min(call.hold, cost(self._prices[call.model], event.usage))

    def _used(self, event: AttemptEnded) -> int:
        start = self._attempts.pop(event.attempt)
        free = event.cause in ("server_stop", "infrastructure")
        if free or event.started is None or event.ended is None:
            return 0
        return min(start.hold, len(start.gpus) * max(0, event.ended - event.started))

    def _expect(self, entry: Entry, theirs: int, mine: int) -> None:
        self.charges += 1
        if theirs != mine:
            raise Corrupt(
                f"row {entry.seq}: {type(entry.event).__name__} says {theirs}, computed again it is {mine}"
            )


def _name(account: tuple[str, str]) -> str:
    corner, resource = account
    return f"the {resource} account of corner {corner}"
