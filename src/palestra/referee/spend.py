"""May this model call be made, at what hold; what it costs once it is answered."""

from __future__ import annotations

from palestra.events.base import Event, clip
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.referee.observations import CallAnswered, CallUnused
from palestra.referee.requests import ReserveCall
from palestra.referee.seats import seated
from palestra.rules.errors import Refusal
from palestra.rules.prices import Usage, affordable_output, ceiling, cost
from palestra.rules.units import Moment, NanoDollars, show_dollars
from palestra.state.accounts import API
from palestra.state.arena import Account, OpenCall, State, next_id

SMALL_CALL = 4096
"""Input tokens of a call that an agent can always make do with; when it can't be paid, the credit is used up."""
DEAD_SERVER = "server_died"
"""The finish of a call whose server was killed: nobody saw its usage, so the hold is charged."""


def reserve(state: State, request: ReserveCall, at: Moment) -> list[Event] | Refusal:
    """Hold the worst case. Near the limit: wait for own calls, then shrink the output cap, then refuse (F04)."""
    seat = seated(state, request.actor, at)
    if isinstance(seat, Refusal):
        return seat
    if state.clock.paused:
        return Refusal("paused", "the competition is paused; no calls are made", retry=True)
    model = state.rules.model(request.model)
    if model is None:
        names = ", ".join(model.name for model in state.rules.models) or "none"
        return Refusal(
            "unknown_model",
            f"no price for {request.model!r}; models of this competition: {names}",
            subject="model",
        )
    cap = min(request.asked_cap or model.output_ceiling, model.output_ceiling)
    account = state.accounts[request.actor, API]
    hold = ceiling(model.price, request.input_bound, cap)
    if hold > account.left:
        floor = min(cap, model.output_floor)
        if account.held and ceiling(model.price, request.input_bound, floor) <= account.left + account.held:
            return Refusal(
                "credit_held",
                f"{show_dollars(account.held)} is held by your own open calls; the money comes free as they end",
                retry=True,
            )
        cap = affordable_output(model.price, request.input_bound, account.left)
        if cap < floor:
            small = min(request.input_bound, SMALL_CALL)
            spent = affordable_output(model.price, small, account.left) < floor
            return _unaffordable(account, hold, spent=spent)
        hold = ceiling(model.price, request.input_bound, cap)
    call = next_id(state, request.actor, "c")
    return [CallReserved(call, request.actor, model.name, hold, request.input_bound, cap, request.asked_cap)]


def _unaffordable(account: Account, hold: int, *, spent: bool) -> Refusal:
    """Used up for good when not even a small call fits any more; else only this call is too dear."""
    left = show_dollars(account.left)
    figures: dict[str, str | int] = {"left": account.left, "spent": account.spent, "needed": hold}
    if spent:
        text = f"the API credit is used up: {left} is left, this call may cost {show_dollars(hold)}"
        return Refusal(
            "credit_spent", f"{text}. Jobs go on; nominate, logs and finish still work", facts=figures
        )
    text = f"this call may cost {show_dollars(hold)} and {left} is left: a shorter one fits"
    return Refusal("call_too_dear", text, facts=figures)


def answered(state: State, seen: CallAnswered) -> list[Event]:
    """Settle a call by its usage; at the hold where a 2xx answer carried none (F05)."""
    call = state.calls.get(seen.call)
    if call is None:
        return [ObservationIgnored(seen.call, "CallAnswered")]
    model = state.rules.model(call.model)
    assert model is not None, "a reserved call has a price"
    owed = call.hold if seen.usage is None else cost(model.price, seen.usage)
    events: list[Event] = [
        CallCharged(
            call=call.call,
            corner=call.corner,
            charge=NanoDollars(min(owed, call.hold)),
            usage=seen.usage or Usage(),
            estimated=seen.usage is None,
            status=seen.status,
            finish=seen.finish,
            uncovered=NanoDollars(max(0, owed - call.hold)),
            hung_up=seen.hung_up,
            asked_body=seen.asked_body,
            answered_body=seen.answered_body,
            first_step=seen.first_step,
            steps=seen.steps,
        )
    ]
    if owed > call.hold:
        text = f"call {call.call} cost {show_dollars(owed - call.hold)} more than its hold; the corner was charged the hold"
        events.append(AlarmRaised(f"hold_exceeded:{call.call}", text))
    return events


def unused(state: State, seen: CallUnused) -> list[Event]:
    """Give the hold back."""
    call = state.calls.get(seen.call)
    if call is None:
        return [ObservationIgnored(seen.call, "CallUnused")]
    return [CallReleased(call.call, call.corner, clip(seen.why), seen.status)]


def died(call: OpenCall) -> CallCharged:
    """A call that was open when its server died is charged at its ceiling: the upstream may have answered."""
    return CallCharged(
        call.call, call.corner, NanoDollars(call.hold), Usage(), estimated=True, status=0, finish=DEAD_SERVER
    )
