"""Model calls at the referee: held at their worst case, settled by usage, refused at the limit."""

from __future__ import annotations

import pytest
from tests.building import Rehearsal, competition

from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.referee.observations import CallAnswered, CallUnused, SessionExited
from palestra.referee.requests import Finish, Pause, ReserveCall, Resume
from palestra.rules.errors import Refusal
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Moment
from palestra.state.arena import Account

CENT = DOLLAR // 100


def ask(bound: int = 10_000, cap: int | None = 7_500, corner: str = "A", model: str = "small") -> ReserveCall:
    """By default 1 cent of input and 3 cents of output at most."""
    return ReserveCall(corner, None, model, bound, cap)


def test_f04_ten_calls_at_once_are_let_in_by_what_they_may_cost_together() -> None:
    """10 cents left, ten calls of at most 4.25 cents each (the dearest input price counts): two in, eight must wait."""
    run = Rehearsal(competition(api_credit=10 * CENT))
    answers = [run.ask(ask()) for _ in range(10)]
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [answer.code for answer in refused] == ["credit_held"] * 8
    assert all(answer.retry for answer in refused)
    assert "held by your own open calls" in str(refused[0])
    assert run.account("A", "api") == Account(10 * CENT, 0, 2 * 42_500_000)


def test_f04_the_corners_don_t_pay_for_one_another() -> None:
    run = Rehearsal(competition(api_credit=10 * CENT))
    for corner in "AABB":
        run.grant(ask(corner=corner))
    assert run.account("A", "api") == run.account("B", "api")


def test_f04_near_the_limit_the_output_cap_shrinks_to_what_is_left() -> None:
    run = Rehearsal(competition(api_credit=3 * CENT))
    call = run.reserve(bound=10_000, cap=7_500)
    reserved = run.last(CallReserved)
    assert (reserved.call, reserved.asked_cap, reserved.output_cap) == (call, 7_500, 4_375)
    assert run.account("A", "api").left == 0


def test_f05_no_usage_is_charged_at_the_hold_and_marked_estimated() -> None:
    """The client hung up and the upstream told no usage: the hold is what is owed."""
    run = Rehearsal()
    call = run.reserve(bound=10_000, cap=7_500)
    run.tell(CallAnswered(call, None, 200, "cut", hung_up=True))
    charged = run.last(CallCharged)
    assert (charged.charge, charged.estimated, charged.hung_up) == (42_500_000, True, True)
    assert run.account("A", "api") == Account(10 * DOLLAR, 42_500_000, 0)
    assert run.book.catalog.tallies["A"].estimated == 1


def test_f05_a_drained_answer_is_charged_by_its_usage_whoever_hung_up() -> None:
    run = Rehearsal()
    call = run.reserve(bound=10_000, cap=7_500)
    run.tell(CallAnswered(call, Usage(fresh_input=9_000, output=400), 200, "stop", hung_up=True))
    charged = run.last(CallCharged)
    assert (charged.charge, charged.estimated) == (9_000 * 1_000 + 400 * 4_000, False)


def test_f06_no_price_no_call() -> None:
    run = Rehearsal()
    refusal = run.refuse(ask(model="large"))
    assert (refusal.code, refusal.subject) == ("unknown_model", "model")
    assert "no price for 'large'" in str(refusal)
    assert "small" in str(refusal)
    assert not run.state.calls


def test_more_than_was_held_is_never_charged_but_told_to_the_organisers() -> None:
    run = Rehearsal()
    call = run.reserve(bound=1_000, cap=1_000)
    held = run.account("A", "api").held
    run.answer(call, Usage(fresh_input=1_000_000))
    charged = run.last(CallCharged)
    assert (charged.charge, charged.uncovered) == (held, DOLLAR - held)
    assert run.last(AlarmRaised).alarm == f"hold_exceeded:{call}"


def test_a_call_that_came_to_nothing_gives_its_hold_back() -> None:
    run = Rehearsal()
    call = run.reserve()
    run.tell(CallUnused(call, "the upstream refused", 503))
    assert run.last(CallReleased).status == 503
    assert run.account("A", "api") == Account(10 * DOLLAR)


def test_a_call_is_settled_once() -> None:
    run = Rehearsal()
    call = run.reserve()
    run.answer(call, Usage(output=10))
    before = run.account("A", "api")
    assert run.answer(call, Usage(output=10)) == [ObservationIgnored(call, "CallAnswered")]
    assert run.tell(CallUnused(call, "late", 0)) == [ObservationIgnored(call, "CallUnused")]
    assert run.account("A", "api") == before


def test_calls_open_when_a_server_dies_are_charged_at_their_ceiling_once() -> None:
    """Nobody saw what the upstream answered; jobs and other corners aren't touched."""
    run = Rehearsal()
    call = run.reserve(bound=10_000, cap=7_500)
    events = run.restart()
    charged = [event for event in events if isinstance(event, CallCharged)]
    assert [(one.call, one.charge, one.estimated, one.finish) for one in charged] == [
        (call, 42_500_000, True, "server_died")
    ]
    run.restart()
    assert run.account("A", "api") == Account(10 * DOLLAR, 42_500_000, 0)


def test_s84_at_zero_calls_are_refused_and_everything_else_goes_on() -> None:
    """Spend to the last nano-dollar with a job running: it goes on, and nominating, cancelling and finishing still work."""
    run = Rehearsal(competition(api_credit=4 * CENT))
    job = run.submit()
    call = run.reserve(bound=10_000, cap=7_500)
    run.answer(call, None)
    assert run.account("A", "api").left == 0
    refusal = run.refuse(ask(bound=1, cap=1))
    assert (refusal.code, refusal.retry) == ("credit_spent", False)
    assert "nominate" in str(refusal)
    assert run.state.jobs[job].attempt
    nomination = run.nominate()
    run.accept(nomination)
    assert run.current("A") == nomination
    assert run.submit()
    run.at = Moment(run.at + HOUR)
    run.exit(job)
    run.grant(Finish("A", None))


def test_s84_an_agent_that_left_without_credit_isn_t_started_again() -> None:
    run = Rehearsal(competition(api_credit=CENT))
    run.answer(run.reserve(bound=1_000, cap=7_500), None)
    run.refuse(ask())
    run.tell(SessionExited("A-s1", 0, HOUR))
    run.wait(10 * MINUTE)
    assert "A-s2" not in run.book.catalog.sessions


def test_no_call_is_made_while_paused() -> None:
    run = Rehearsal()
    run.grant(Pause("organiser:one", None, "upstream is down"))
    refusal = run.refuse(ask())
    assert (refusal.code, refusal.retry) == ("paused", True)
    run.grant(Resume("organiser:one", None))
    run.grant(ask())


def test_a_finished_corner_makes_no_call() -> None:
    run = Rehearsal()
    run.grant(Finish("A", None))
    assert run.refuse(ask()).code == "finished"


@pytest.mark.parametrize("cap", [None, 0])
def test_a_call_that_names_no_maximum_holds_the_model_s_own(cap: int | None) -> None:
    run = Rehearsal()
    run.grant(ask(cap=cap))
    assert run.last(CallReserved).output_cap == 8_192


def test_a_call_that_is_too_dear_does_not_make_the_corner_broke() -> None:
    """Money is left for a shorter call, so the agent is started again when it ends; at zero it isn't."""
    run = Rehearsal(competition(api_credit=DOLLAR))
    refusal = run.refuse(ask(bound=10_000_000))
    assert refusal.code == "call_too_dear"
    assert not run.state.corners["A"].broke
