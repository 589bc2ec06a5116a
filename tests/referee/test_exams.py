"""Exams at the referee: one set of questions for all, a score or none, and never a zero for what couldn't be examined."""

from __future__ import annotations

import pytest
from tests.building import SEED, Rehearsal, competition, digest, events_of
from tests.world import QUESTIONS, end_of_running, settle

from palestra.events.exams import ExamFailed, ExamScored, ExamStarted
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.referee.exams import commitment
from palestra.referee.observations import AttemptLost, ExamBroke, ExamGraded, QuestionsMade
from palestra.rules.units import HOUR, MINUTE

MADE = QuestionsMade(SEED, digest("questions"), QUESTIONS)


@pytest.fixture
def run() -> Rehearsal:
    """In the judging stage; corner A has a nomination, corner B has none."""
    run = Rehearsal(competition(judging=HOUR))
    run.accept(run.nominate("A"))
    run.until(end_of_running(run))
    settle(run)
    assert run.stage() == "judging"
    return run


def graded(exam: str, correct: int, n: int = QUESTIONS) -> ExamGraded:
    return ExamGraded(exam, correct, n, digest(f"answers {exam}"))


def test_the_base_and_every_current_nomination_sit_the_same_questions(run: Rehearsal) -> None:
    run.tell(MADE)
    started = [event for event in events_of(run.rows) if isinstance(event, ExamStarted)]
    assert [(one.exam, one.target) for one in started] == [("x1", "base"), ("x2", "A-n1")]
    assert {(one.seed, one.questions, one.n) for one in started} == {(SEED, digest("questions"), QUESTIONS)}
    assert [job.purpose for job in run.state.jobs.values()] == ["exam:x1", "exam:x2"]
    assert run.tell(MADE) == [ObservationIgnored("questions", "QuestionsMade")]


def test_questions_made_too_early_are_ignored() -> None:
    assert Rehearsal().tell(MADE) == [ObservationIgnored("questions", "QuestionsMade")]


def test_a_seed_that_wasn_t_committed_to_makes_no_exam_and_one_alarm(run: Rehearsal) -> None:
    other = QuestionsMade("another", digest("questions"), QUESTIONS)
    run.tell(other)
    assert run.last(AlarmRaised).alarm == "exam_seed:run"
    assert not run.state.exams
    assert run.tell(other) == [ObservationIgnored("questions", "QuestionsMade")]
    assert commitment(SEED) != commitment("another")


def test_f36_scores_that_are_none_are_refused_at_ingestion(run: Rehearsal) -> None:
    """More correct than asked, fewer than none, of another n: not scores. A model without a score is failed, not zero."""
    run.tell(MADE)
    for odd in (graded("x2", -1), graded("x2", QUESTIONS + 1), graded("x2", 10, n=20), graded("x9", 10)):
        assert run.tell(odd) == [ObservationIgnored(odd.exam, "ExamGraded")]
    run.tell(ExamBroke("x2", "not_served", "the server ended before it listened"))
    assert run.last(ExamFailed).code == "not_served"
    assert run.last(AlarmRaised).alarm == "exam_failed:A-n1"
    assert run.state.exams["x2"].correct is None
    assert run.tell(graded("x2", 500)) == [ObservationIgnored("x2", "ExamGraded")]


def test_a_zero_is_a_score(run: Rehearsal) -> None:
    run.tell(MADE)
    run.tell(graded("x2", 0))
    assert run.last(ExamScored).correct == 0
    assert run.state.exams["x2"].over


def test_results_wait_for_every_score_and_for_the_exam_s_own_jobs(run: Rehearsal) -> None:
    run.tell(MADE)
    run.exit("house-j2")
    run.tell(graded("x1", 200))
    run.tell(graded("x2", 700))
    assert run.stage() == "judging"
    assert run.state.attempts["house-j3.1"].stopping == "cancelled"
    run.exit("house-j3", 143)
    assert run.stage() == "results"
    assert run.tell(graded("x2", 701)) == [ObservationIgnored("x2", "ExamGraded")]


def test_an_exam_the_world_lost_is_tried_three_times(run: Rehearsal) -> None:
    run.tell(MADE)
    for attempt in (1, 2, 3):
        run.tell(AttemptLost(f"house-j2.{attempt}"))
    assert "house-j2" not in run.state.jobs
    assert not run.state.exams["x1"].over


def test_what_has_no_score_when_judging_ends_stays_without_one(run: Rehearsal) -> None:
    run.tell(MADE)
    run.tell(graded("x1", 200))
    run.wait(HOUR)
    assert run.stage() == "judging"
    settle(run)
    assert run.stage() == "results"
    failed = run.last(ExamFailed)
    assert (failed.target, failed.code) == ("A-n1", "judging_over")
    assert run.state.exams["x1"].correct == 200
    run.wait(MINUTE)
