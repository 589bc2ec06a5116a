"""What should be so against what is, case by case: a state and one look at the world in; facts to tell and acts to do out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.building import GB, LORA, SEED, Rehearsal, digest
from tests.world import QUESTIONS, end_of_running, play_out, settle

from palestra.ports import AttemptSnapshot, CopyResult, ProcessSnapshot
from palestra.referee.observations import (
    AttemptExited,
    AttemptLost,
    CopyBroke,
    CopyDone,
    Observation,
    QuestionsMade,
    ServerDown,
    SessionExited,
    SessionLost,
    Trouble,
    TroubleOver,
)
from palestra.referee.requests import CancelJob, EndRun, Finish
from palestra.rules.units import Bytes, Moment
from palestra.runtime.compare import (
    Act,
    ForgetCopy,
    FreezeScoreboard,
    GradeExam,
    JudgeProbes,
    MakeQuestions,
    StartAttempt,
    StartCopy,
    StartSession,
    StopAttempt,
    StopSession,
    World,
    compare,
    house_target,
)
from palestra.state.arena import State

SESSIONS = {
    f"{corner}-s1": ProcessSnapshot(key=f"{corner}-s1", state="running", started=Moment(5)) for corner in "AB"
}
"""Both agents at work."""


def world(
    attempts: dict[str, AttemptSnapshot] | None = None,
    sessions: dict[str, ProcessSnapshot] | None = None,
    copies: dict[str, CopyResult] | None = None,
    **more: Any,
) -> World:
    return World(attempts or {}, SESSIONS if sessions is None else sessions, copies or {}, **more)


def seen(attempt: str, state: Any, **more: Any) -> dict[str, AttemptSnapshot]:
    return {attempt: AttemptSnapshot(attempt=attempt, state=state, **more)}


@pytest.fixture
def run() -> Rehearsal:
    return Rehearsal()


def test_an_empty_book_wants_nothing() -> None:
    assert compare(State(), world(sessions={})) == ([], [])


def test_when_all_is_as_it_should_be_nothing_is_done(run: Rehearsal) -> None:
    job = run.submit()
    for state in ("waiting", "running"):
        assert compare(run.state, world(seen(f"{job}.1", state))) == ([], [])


# Attempts


def test_a_placed_attempt_that_nobody_knows_is_started(run: Rehearsal) -> None:
    run.submit()
    assert compare(run.state, world()) == ([], [StartAttempt("A-j1.1")])


def test_an_ended_attempt_is_told_with_all_that_was_measured(run: Rehearsal) -> None:
    run.submit()
    snapshot = seen(
        "A-j1.1", "exited", exit_code=1, started=Moment(10), ended=Moment(20), over_time=True, over_memory=True,
        peak_memory=Bytes(7), missing_outputs=("ckpt",), log_tail="CUDA out of memory",
    )  # fmt: skip
    told = AttemptExited(
        "A-j1.1", 1, Moment(10), Moment(20), True, True, Bytes(7), ("ckpt",), "CUDA out of memory"
    )
    assert compare(run.state, world(snapshot)) == ([told], [])


def test_a_lost_attempt_is_told_as_lost(run: Rehearsal) -> None:
    run.submit()
    assert compare(run.state, world(seen("A-j1.1", "lost"))) == ([AttemptLost("A-j1.1")], [])


def test_an_attempt_to_be_stopped_is_stopped_while_it_runs(run: Rehearsal) -> None:
    run.submit()
    run.grant(CancelJob("A", None, "A-j1"))
    for state in ("waiting", "running"):
        assert compare(run.state, world(seen("A-j1.1", state))) == ([], [StopAttempt("A-j1.1")])


def test_an_attempt_stopped_before_it_ever_ran_owes_nothing(run: Rehearsal) -> None:
    run.submit()
    run.grant(CancelJob("A", None, "A-j1"))
    assert compare(run.state, world()) == ([AttemptExited("A-j1.1", None, None, None)], [])


def test_an_attempt_that_the_book_no_longer_knows_is_left_alone(run: Rehearsal) -> None:
    assert compare(run.state, world(seen("A-j9.1", "exited", exit_code=0))) == ([], [])


def test_f21_an_unreachable_engine_concludes_nothing(run: Rehearsal) -> None:
    """ "Engine unreachable" is never "lost": no attempt is started, stopped or told; there is an alarm."""
    run.submit()
    run.submit()
    run.grant(CancelJob("A", None, "A-j1"))
    told, acts = compare(run.state, World(None, SESSIONS, {}, "timed out"))
    assert acts == []
    assert told == [Trouble("unreachable:executor", "the executor can't be reached: timed out")]
    run.tell(told[0])
    again, _ = compare(run.state, World(None, SESSIONS, {}, "timed out"))
    assert run.tell(again[0]) == [], "the same trouble is one alarm"
    told, acts = compare(run.state, world(seen("A-j1.1", "running") | seen("A-j2.1", "running")))
    assert told == [TroubleOver("unreachable:executor")]
    assert acts == [StopAttempt("A-j1.1")]


# Sessions


def test_an_agent_that_should_run_and_doesnt_is_started(run: Rehearsal) -> None:
    assert compare(run.state, world(sessions={})) == ([], [StartSession("A-s1"), StartSession("B-s1")])


def test_an_agents_end_is_told_with_how_long_it_lived(run: Rehearsal) -> None:
    gone = ProcessSnapshot(key="A-s1", state="exited", exit_code=3, started=Moment(100), ended=Moment(350))
    assert compare(run.state, world(sessions=SESSIONS | {"A-s1": gone})) == (
        [SessionExited("A-s1", 3, 250)],
        [],
    )
    lost = ProcessSnapshot(key="A-s1", state="lost")
    assert compare(run.state, world(sessions=SESSIONS | {"A-s1": lost})) == ([SessionLost("A-s1")], [])


def test_an_agent_that_finished_is_stopped(run: Rehearsal) -> None:
    run.grant(Finish("A", None))
    assert compare(run.state, world()) == ([], [StopSession("A-s1")])
    never = {name: one for name, one in SESSIONS.items() if name != "A-s1"}
    assert compare(run.state, world(sessions=never)) == ([SessionExited("A-s1", None, 0)], [])


def test_a_stopped_server_takes_agents_and_jobs_with_it(run: Rehearsal) -> None:
    run.submit()
    run.tell(ServerDown(1, "stop"))
    told, acts = compare(run.state, world(seen("A-j1.1", "running")))
    assert (told, set(acts)) == ([], {StopAttempt("A-j1.1"), StopSession("A-s1"), StopSession("B-s1")})


# Copies and validations


def test_a_nomination_is_copied(run: Rehearsal) -> None:
    run.nominate()
    assert compare(run.state, world()) == ([], [StartCopy("A-n1")])


def test_a_copy_that_ended_well_is_told(run: Rehearsal) -> None:
    run.nominate()
    copy = run.state.nominations["A-n1"].copy
    kept = CopyResult(copy=copy, artifact=digest("w1"), size=Bytes(GB), inspection=LORA, again=True)
    assert compare(run.state, world(copies={copy: kept})) == (
        [CopyDone(copy, digest("w1"), Bytes(GB), LORA, True)],
        [],
    )


@pytest.mark.parametrize(
    ("result", "code", "evidence"),
    [
        ({"code": "source_changed", "evidence": "a.bin differs"}, "source_changed", "a.bin differs"),
        ({"evidence": "no header"}, "not_loadable", "no header"),
    ],
)
def test_a_copy_that_failed_is_told(run: Rehearsal, result: Any, code: str, evidence: str) -> None:
    run.nominate()
    copy = run.state.nominations["A-n1"].copy
    assert compare(run.state, world(copies={copy: CopyResult(copy=copy, **result)})) == (
        [CopyBroke(copy, code, evidence)], [],
    )  # fmt: skip


def test_a_copy_that_was_told_is_forgotten(run: Rehearsal) -> None:
    copy = run.state.nominations[run.nominate()].copy
    run.copied("A-n1")
    kept = CopyResult(copy=copy, artifact=digest("w1"), size=Bytes(GB), inspection=LORA)
    told, acts = compare(run.state, world(seen("house-j1.1", "running"), copies={copy: kept}))
    assert (told, acts) == ([], [ForgetCopy(copy)])


def test_a_validation_that_ended_is_judged(run: Rehearsal) -> None:
    run.nominate()
    run.copied("A-n1")
    assert compare(run.state, world()) == ([], [StartAttempt("house-j1.1")])
    run.exit("house-j1")
    assert compare(run.state, world()) == ([], [JudgeProbes("A-n1", "house-j1")])
    run.probed("A-n1")
    assert compare(run.state, world()) == ([], [])


# The end


def test_questions_are_made_once_when_all_has_stopped(run: Rehearsal) -> None:
    run.accept(run.nominate())
    run.grant(EndRun("organiser:x", None, ""))
    assert MakeQuestions() not in compare(run.state, world())[1]
    settle(run)
    assert compare(run.state, world(sessions={})) == ([], [MakeQuestions()])
    run.tell(QuestionsMade(SEED, digest("questions"), QUESTIONS))
    assert compare(run.state, world(sessions={})) == (
        [],
        [StartAttempt("house-j2.1"), StartAttempt("house-j3.1")],
    )


def test_an_exam_whose_job_ended_is_graded(run: Rehearsal) -> None:
    run.until(end_of_running(run))
    settle(run)
    run.tell(QuestionsMade(SEED, digest("questions"), QUESTIONS))
    run.exit("house-j1")
    assert compare(run.state, world(sessions={})) == ([], [GradeExam("x1", "house-j1")])


def test_the_scoreboard_is_frozen_with_the_results(run: Rehearsal) -> None:
    play_out(run, {"base": 1})
    assert compare(run.state, world(sessions={})) == ([], [FreezeScoreboard()])


# Acts under way


def under_way() -> list[tuple[str, Act]]:
    return [
        ("a start whose process isn't seen yet", StartAttempt("A-j1.1")),
        ("an agent whose process isn't seen yet", StartSession("A-s1")),
    ]


@pytest.mark.parametrize("given", ["before the look", "since the look"])
@pytest.mark.parametrize(("what", "act"), under_way())
def test_what_is_being_done_is_left_alone(run: Rehearsal, what: str, act: Act, given: str) -> None:
    """A look may have begun before the act ended: half of it is seen, and nothing is concluded from that."""
    run.submit()
    some = {"B-s1": SESSIONS["B-s1"]} if isinstance(act, StartSession) else SESSIONS
    attempts = {} if isinstance(act, StartAttempt) else seen("A-j1.1", "running")
    before = frozenset({act}) if given == "before the look" else frozenset()
    look = World(attempts, some, {}, doing=before)
    assert compare(run.state, look, frozenset({act}) - before) == ([], []), what
    assert compare(run.state, World(attempts, some, {})) == ([], [act])


def test_a_stop_asked_while_the_start_is_under_way_waits_for_it(run: Rehearsal) -> None:
    """Otherwise an attempt just being started would be told as never run, and run all the same."""
    run.submit()
    run.grant(CancelJob("A", None, "A-j1"))
    assert compare(run.state, world(), frozenset({StartAttempt("A-j1.1")})) == ([], [])
    assert compare(run.state, world(seen("A-j1.1", "running"))) == ([], [StopAttempt("A-j1.1")])


def test_comparing_changes_nothing_and_says_the_same_twice(run: Rehearsal) -> None:
    run.submit()
    run.nominate()
    before = run.state.copy()
    first: tuple[list[Observation], list[Act]] = compare(run.state, world(sessions={}))
    assert compare(run.state, world(sessions={})) == first
    assert run.state == before


def test_a_house_jobs_purpose_names_its_target() -> None:
    assert house_target("validate:A-n3") == ("validate", "A-n3")
    assert house_target("exam:x1") == ("exam", "x1")
    with pytest.raises(ValueError, match="not a house job's purpose: 'lunch'"):
        house_target("lunch")


def test_acts_can_be_compared() -> None:
    """Acts are values: the same act twice is one, so that what is under way can be known."""
    assert len({StartAttempt("A-j1.1"), StartAttempt("A-j1.1"), StopAttempt("A-j1.1")}) == 2
