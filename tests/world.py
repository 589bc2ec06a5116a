"""A world in which everything goes well: what the book says should happen, happens, one fact at a time."""

from __future__ import annotations

from collections.abc import Mapping

from tests.building import GB, LORA, SEED, Rehearsal, digest

from palestra.events.nominations import Inspection
from palestra.referee.observations import (
    AttemptExited,
    CopyDone,
    ExamBroke,
    ExamGraded,
    Observation,
    Probed,
    QuestionsMade,
    SessionExited,
)
from palestra.rules.units import MINUTE, Bytes, Moment
from palestra.state.arena import State
from palestra.state.queue import HOUSE

QUESTIONS = 1_000


def settle(run: Rehearsal, *, kept: Inspection = LORA) -> None:
    """Tell facts until nothing is open that the arena itself works on."""
    while (fact := next_fact(run.state, run.at, kept)) is not None:
        run.tell(fact)


def play_out(run: Rehearsal, scores: Mapping[str, int | None]) -> None:
    """From wherever the run is to its results. `scores`: correct answers by corner or `base`; None: can't be examined."""
    if run.state.clock.stage in ("announced", "running"):
        run.until(end_of_running(run))
    settle(run)
    assert run.state.clock.stage == "judging", run.state.clock
    run.tell(QuestionsMade(SEED, digest("questions"), QUESTIONS))
    for exam, sitting in list(run.state.exams.items()):
        settle(run)
        score = scores.get(sitting.target.split("-")[0])
        run.at = Moment(run.at + MINUTE)
        if score is None:
            run.tell(ExamBroke(exam, "not_served", "the server ended before it listened"))
        else:
            run.tell(ExamGraded(exam, score, QUESTIONS, digest(f"answers {exam}")))


def end_of_running(run: Rehearsal) -> int:
    """The end of a running stage without pauses."""
    return run.state.clock.start + run.state.rules.stages.running


def next_fact(state: State, at: int, kept: Inspection = LORA) -> Observation | None:
    """What a world without faults reports next, or None when it has nothing to report."""
    for session in state.sessions.values():
        if session.stopping:
            return SessionExited(session.session, 143, at - session.started)
    for attempt in state.attempts.values():
        if attempt.stopping != "none" or attempt.corner == HOUSE:
            code = 143 if attempt.stopping != "none" else 0
            return AttemptExited(attempt.attempt, code, attempt.started, Moment(at))
    for one in state.nominations.values():
        if one.state == "copying":
            return CopyDone(one.copy, one.artifact, Bytes(GB), kept)
        if one.state == "validating" and one.job not in state.jobs:
            return Probed(one.nomination, served=True, probes=8, stopped=8, differing=5)
    return None
