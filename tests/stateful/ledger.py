"""The accounts, counted a second time from the events alone, by the rules as design.md words them."""

from __future__ import annotations

from palestra.events.base import Event
from palestra.events.corners import EntrantSeated
from palestra.events.jobs import AttemptEnded, AttemptStarted
from palestra.events.runs import RunOpened
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.rules.prices import Price
from palestra.state.arena import Account

HOUSE = "house"
FREE = ("server_stop", "infrastructure")
"""Causes of an end that are the arena's own: nobody pays for them."""


class Ledger:
    """Limits as seated, holds by what they are for, and what was spent."""

    def __init__(self) -> None:
        self.limits: dict[tuple[str, str], int] = {}
        self.spent: dict[tuple[str, str], int] = {}
        self.holds: dict[str, tuple[tuple[str, str], int]] = {}
        self._prices: dict[str, Price] = {}
        self._calls: dict[str, CallReserved] = {}
        self._attempts: dict[str, AttemptStarted] = {}

    def take(self, event: Event) -> None:
        """Post one event; every hold and charge must be what the rules make of it."""
        match event:
            case RunOpened(rules=rules):
                self._prices = {model.name: model.price for model in rules.models}
            case EntrantSeated(corner=corner):
                self.limits |= {(corner, "api"): event.api_credit, (corner, "gpu"): event.gpu_time}
                self.spent |= {(corner, "api"): 0, (corner, "gpu"): 0}
            case CallReserved(call=call, corner=corner):
                assert event.hold == self._worst(event) > 0
                self._calls[call] = event
                self.holds[call] = ((corner, "api"), event.hold)
            case CallCharged(call=call, corner=corner):
                assert event.charge == self._owed(event), event
                del self.holds[call], self._calls[call]
                self.spent[corner, "api"] += event.charge
            case CallReleased(call=call):
                del self.holds[call], self._calls[call]
            case AttemptStarted(attempt=attempt, corner=corner):
                self._attempts[attempt] = event
                if corner != HOUSE:
                    assert event.hold == len(event.gpus) * event.limit > 0
                    self.holds[attempt] = ((corner, "gpu"), event.hold)
            case AttemptEnded(attempt=attempt, corner=corner):
                assert event.charge == self._used(event), event
                del self._attempts[attempt]
                if corner != HOUSE:
                    del self.holds[attempt]
                    self.spent[corner, "gpu"] += event.charge

    def accounts(self) -> dict[tuple[str, str], Account]:
        """What the folds must have come to."""
        held = dict.fromkeys(self.limits, 0)
        for account, amount in self.holds.values():
            held[account] += amount
        return {key: Account(limit, self.spent[key], held[key]) for key, limit in self.limits.items()}

    def _worst(self, event: CallReserved) -> int:
        price = self._prices[event.model]
        dearest = max(price.input, price.cached_input, price.cache_write)
        millionths = event.input_bound * dearest + event.output_cap * price.output
        return (millionths + 999_999) // 1_000_000

    def _owed(self, event: CallCharged) -> int:
        call, used = self._calls[event.call], event.usage
        if event.estimated:
            return call.hold
        price = self._prices[call.model]
        millionths = used.fresh_input * price.input + used.cached_input * price.cached_input
        millionths += used.cache_write * price.cache_write + used.output * price.output
        return min(call.hold, (millionths + 999_999) // 1_000_000)

    def _used(self, event: AttemptEnded) -> int:
        started = self._attempts[event.attempt]
        if event.corner == HOUSE or event.cause in FREE or event.started is None or event.ended is None:
            return 0
        return min(started.hold, len(started.gpus) * max(0, event.ended - event.started))
