"""Stages and pauses: entered by the clock or because nothing is left to wait for, and everywhere at the same instant."""

from __future__ import annotations

import pytest
from tests.building import GB, START, Rehearsal, competition, digest, events_of, spec
from tests.world import end_of_running, next_fact, play_out, settle

from palestra.events.corners import SessionStopAsked
from palestra.events.jobs import JobEnded
from palestra.events.nominations import AnswerSettings
from palestra.events.runs import EndAsked, Paused, Resumed, StageEntered
from palestra.referee.observations import CallAnswered, ServerDown, SessionExited, Tick
from palestra.referee.requests import EndRun, Finish, Nominate, Pause, ReserveCall, Resume, SubmitJob
from palestra.referee.rulings import next_due
from palestra.rules.competition import PauseRule
from palestra.rules.times import ends_at, used
from palestra.rules.units import DAY, HOUR, MINUTE, SECOND, Bytes, Micros, Moment
from palestra.state.clock import stage_end

PAUSE = Pause("organiser:one", None, "the upstream is down")
RESUME = Resume("organiser:one", None)


def stages(run: Rehearsal) -> list[tuple[str, int]]:
    """Stages entered, each with its instant in minutes from the start."""
    entered = [row for row in run.rows if row.kind == "StageEntered"]
    return [
        (event.stage, (row.at - START) // MINUTE)
        for row in entered
        for event in events_of([row])
        if isinstance(event, StageEntered)
    ]


def test_a_whole_competition_goes_through_its_stages_in_order() -> None:
    run = Rehearsal(at=START - HOUR)
    assert run.stage() == "announced"
    assert next_due(run.state) == START
    run.until(START)
    run.accept(run.nominate("A"))
    play_out(run, {"A": 700, "base": 200})
    assert [name for name, _ in stages(run)] == ["running", "closing", "judging", "results"]
    assert not (run.state.sessions or run.state.jobs or run.state.attempts or run.state.calls)


def test_before_the_start_everything_is_refused_with_the_start() -> None:
    run = Rehearsal(at=START - HOUR)
    for request in (SubmitJob("A", None, spec()), ReserveCall("A", None, "small", 1, 1), Finish("A", None)):
        refusal = run.refuse(request)
        assert (refusal.code, refusal.retry) == ("not_started", True)
        assert "starts at T+0:00" in str(refusal)


def test_f53_at_the_end_s_own_instant_every_request_is_too_late() -> None:
    run = Rehearsal()
    run.at = Moment(end_of_running(run) - SECOND)
    run.grant(ReserveCall("A", None, "small", 1, 1))
    run.at = Moment(end_of_running(run))
    for request in (SubmitJob("A", None, spec()), ReserveCall("A", None, "small", 1, 1), Finish("A", None)):
        assert run.refuse(request).code == "stage_over"


@pytest.mark.parametrize(("rule", "moved"), [("extend", 30 * MINUTE), ("absorb", 0)])
def test_f55_s85_after_a_pause_every_surface_tells_the_same_end(rule: PauseRule, moved: int) -> None:
    """A stage of 60 min, paused at 50 for 30: what may be done, what is due, what is left and what was used agree."""
    run = Rehearsal(competition(running=HOUR, pause=rule))
    run.until(START + 50 * MINUTE)
    run.grant(PAUSE)
    if rule == "extend":
        run.until(START + HOUR)
        assert run.stage() == "running"
        assert (stage_end(run.state), next_due(run.state)) == (None, None)
        run.until(START + 80 * MINUTE)
    else:
        run.until(START + 59 * MINUTE)
    run.grant(RESUME)
    end = START + HOUR + moved
    clock = run.state.clock
    assert stage_end(run.state) == next_due(run.state) == end
    assert ends_at(clock.start, Micros(HOUR), clock.pauses, rule, run.at) == end
    left = end - run.at
    assert used(clock.start, clock.pauses, rule, run.at) == HOUR - left
    assert run.refuse(SubmitJob("A", None, spec(limit=left + 1))).facts == {"left": left}
    run.at = Moment(end - 1)
    run.grant(Nominate("A", None, digest("w1"), "out/w1", Bytes(GB), AnswerSettings()))
    run.at = Moment(end)
    assert (
        run.refuse(Nominate("A", None, digest("w2"), "out/w2", Bytes(GB), AnswerSettings())).code
        == "stage_over"
    )
    run.tell(Tick())
    assert stages(run)[-1] == ("closing", (end - START) // MINUTE)


def test_f55_pauses_stop_calls_and_starts_at_once_and_running_jobs_go_on_and_pay() -> None:
    run = Rehearsal()
    job = run.submit()
    call = run.reserve()
    run.grant(PAUSE)
    assert run.refuse(ReserveCall("A", None, "small", 1, 1)).code == "paused"
    waiting = run.submit()
    assert not run.state.jobs[waiting].attempt
    run.tell(CallAnswered(call, None, 200, "stop"))
    run.at = Moment(run.at + 30 * MINUTE)
    run.exit(job, ran=30 * MINUTE)
    assert run.account("A", "gpu").spent == 30 * MINUTE
    run.grant(RESUME)
    assert run.state.jobs[waiting].attempt


def test_f55_under_absorb_a_stage_ends_though_it_is_paused() -> None:
    run = Rehearsal(competition(running=HOUR, pause="absorb"))
    run.until(START + 50 * MINUTE)
    run.grant(PAUSE)
    assert next_due(run.state) == START + HOUR
    run.until(START + HOUR)
    assert stages(run)[-1] == ("closing", 60)


@pytest.mark.parametrize("rule", ["extend", "absorb"])
def test_f55_a_pause_asked_for_at_the_end_s_instant_doesn_t_bring_the_stage_back(rule: PauseRule) -> None:
    """The rules room says the stage was over by then; so does the referee, whichever row was written first."""
    run = Rehearsal(competition(running=HOUR, pause=rule))
    run.at = Moment(START + HOUR)
    run.grant(PAUSE)
    assert stages(run)[-1] == ("closing", 60)
    assert ends_at(START, Micros(HOUR), run.state.clock.pauses, rule, run.at) == START + HOUR


def test_a_pause_over_the_start_moves_the_end_only_by_what_fell_after_it() -> None:
    run = Rehearsal(competition(running=HOUR), at=START - 10 * MINUTE)
    run.grant(PAUSE)
    run.until(START + 20 * MINUTE)
    assert (run.stage(), next_due(run.state)) == ("announced", None)
    run.grant(RESUME)
    assert stages(run) == [("running", 20)]
    assert stage_end(run.state) == START + 80 * MINUTE


def test_a_pause_is_had_once_and_ended_once() -> None:
    run = Rehearsal()
    assert run.refuse(RESUME).code == "not_paused"
    run.grant(PAUSE)
    refusal = run.refuse(PAUSE)
    assert (refusal.code, str(refusal)) == ("already_paused", "paused already, by organiser:one")
    run.grant(RESUME)
    assert [type(event) for event in events_of(run.rows) if isinstance(event, Paused | Resumed)] == [
        Paused,
        Resumed,
    ]


def test_a_stopped_server_s_pause_is_over_with_the_next_one_an_organiser_s_isn_t() -> None:
    run = Rehearsal()
    run.tell(ServerDown(1, "stop"))
    assert run.state.clock.paused_by == "server"
    run.restart()
    assert not run.state.clock.paused
    run.grant(PAUSE)
    run.tell(ServerDown(2, "stop"))
    run.restart()
    assert run.state.clock.paused_by == "organiser:one"


def test_a_killed_server_pauses_nothing() -> None:
    """The stage's end passes while nobody is there; the successor enters what is due, at its own first instant."""
    run = Rehearsal(competition(running=HOUR))
    run.at = Moment(START + 2 * HOUR)
    run.restart()
    assert stages(run)[-1] == ("closing", 120)
    assert not run.state.clock.pauses


def test_the_end_stops_agents_and_jobs_and_drops_what_waits() -> None:
    run = Rehearsal()
    running, waiting = run.submit(gpus=8), run.submit(gpus=8)
    run.until(end_of_running(run))
    assert {event.session for event in events_of(run.rows) if isinstance(event, SessionStopAsked)} == {
        "A-s1",
        "B-s1",
    }
    assert run.state.attempts[f"{running}.1"].stopping == "stage_end"
    assert run.last(JobEnded).job == waiting


def test_closing_waits_for_processes_and_for_the_last_calls_however_long() -> None:
    """Past its own end there is nothing that time alone would change, so nothing is due."""
    run = Rehearsal(competition(closing=MINUTE))
    call = run.reserve()
    job = run.submit()
    run.until(end_of_running(run))
    run.wait(HOUR)
    assert (run.stage(), next_due(run.state)) == ("closing", None)
    while (fact := next_fact(run.state, run.at)) is not None:
        run.tell(fact)
    assert job not in run.state.jobs
    assert run.stage() == "closing"
    run.answer(call, None)
    assert run.stage() == "judging"


def test_a_validation_nobody_waits_for_is_stopped() -> None:
    """Closing is over while two validations run or wait: their nominations are rejected, their jobs don't outlive them."""
    run = Rehearsal(competition(closing=MINUTE, serving_gpus=8))
    for name in (run.nominate("A", "w1"), run.nominate("B", "w2")):
        run.copied(name)
    run.until(end_of_running(run))
    for session in list(run.state.sessions):
        run.tell(SessionExited(session, 143, HOUR))
    run.wait(MINUTE)
    assert run.stage() == "judging"
    assert list(run.state.jobs) == ["house-j1"]
    assert run.state.attempts["house-j1.1"].stopping == "cancelled"
    run.exit("house-j1", 143)
    assert not run.state.jobs


def test_an_organiser_can_end_the_running_stage() -> None:
    run = Rehearsal()
    run.wait(HOUR)
    run.grant(EndRun("organiser:one", None, "enough"))
    assert stages(run)[-1] == ("closing", 60)
    assert run.last(EndAsked).by == "organiser:one"
    assert run.refuse(EndRun("organiser:two", None, "again")).code == "stage_over"


def test_when_all_have_finished_the_stage_ends_if_the_rules_say_so() -> None:
    for early in (False, True):
        run = Rehearsal(competition(end_when_all_finished=early))
        run.grant(Finish("A", None))
        assert run.stage() == "running"
        run.grant(Finish("B", None))
        assert run.stage() == ("closing" if early else "running")


def test_s114_times_in_a_refusal_are_counted_from_the_start_whatever_the_day() -> None:
    """Finished after midnight of the second day: T+26:00, not 17:00 of some day in some zone."""
    run = Rehearsal(competition(running=3 * DAY))
    run.until(START + 26 * HOUR)
    run.grant(Finish("A", None))
    run.wait(HOUR)
    assert "finished at T+26:00; that is final" in str(run.refuse(Finish("A", None)))


def test_time_never_runs_backwards_in_the_book() -> None:
    run = Rehearsal()
    run.at = Moment(START + HOUR)
    run.submit()
    run.at = Moment(START)
    run.grant(PAUSE)
    assert run.rows[-1].at == START + HOUR
    assert [row.at for row in run.rows] == sorted(row.at for row in run.rows)


def test_judging_without_an_exam_ends_by_the_clock() -> None:
    run = Rehearsal(competition(judging=HOUR))
    run.until(end_of_running(run))
    settle(run)
    assert run.stage() == "judging"
    assert next_due(run.state) == run.at + HOUR
    run.wait(HOUR)
    assert run.stage() == "results"
    assert next_due(run.state) is None
    assert run.refuse(PAUSE).code == "stage_over"


def test_judging_without_an_exam_waits_for_a_validation_that_is_being_stopped() -> None:
    """Whatever the clock says, nothing may be open once the results are out; and nothing is due meanwhile."""
    run = Rehearsal(competition(closing=MINUTE, judging=MINUTE))
    run.copied(run.nominate())
    run.until(end_of_running(run))
    for session in list(run.state.sessions):
        run.tell(SessionExited(session, 143, HOUR))
    run.wait(MINUTE)
    run.wait(HOUR)
    assert (run.stage(), next_due(run.state)) == ("judging", None)
    run.exit("house-j1", 143)
    assert run.stage() == "results"


def test_a_closing_stage_that_is_stuck_is_an_alarm_that_names_what_stays() -> None:
    """Said once, and over when it goes on."""
    run = Rehearsal(competition(closing=MINUTE))
    job = run.submit()
    run.until(end_of_running(run))
    run.wait(HOUR)
    run.wait(HOUR)
    alarm = run.state.alarms["closing_stuck:run"]
    assert job in alarm
    assert sum(type(event).__name__ == "AlarmRaised" for event in events_of(run.rows)) == 1
    while (fact := next_fact(run.state, run.at)) is not None:
        run.tell(fact)
    assert run.stage() == "judging"
    assert not run.state.alarms
