"""Which models sit the exam, and what their results mean."""

from __future__ import annotations

import hashlib

from palestra.events.base import Event, clip
from palestra.events.exams import ExamFailed, ExamScored, ExamStarted
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.referee.nominate import house_job
from palestra.referee.observations import ExamBroke, ExamGraded, QuestionsMade
from palestra.state.arena import State
from palestra.state.exams import BASE, EXAM

SEED_ALARM = "exam_seed:run"


def commitment(seed: str) -> str:
    """What the run opens with, so that the seed can't be chosen later: sha256 of its text, in hex."""
    return hashlib.sha256(seed.encode()).hexdigest()


def started(state: State, seen: QuestionsMade) -> list[Event]:
    """Every current nomination and the base sit the same questions, once all else has stopped."""
    assert state.opened is not None
    if state.clock.stage != "judging" or state.exams:
        return [ObservationIgnored("questions", "QuestionsMade")]
    if commitment(seen.seed) != state.opened.exam_seed_commitment:
        if SEED_ALARM in state.alarms:
            return [ObservationIgnored("questions", "QuestionsMade")]
        text = "the exam's seed isn't the one committed to when the run opened; no exam can count"
        return [AlarmRaised(SEED_ALARM, text)]
    targets = [BASE, *(corner.current for corner in state.corners.values() if corner.current)]
    return [
        ExamStarted(f"x{number}", target, seen.seed, seen.questions, seen.n)
        for number, target in enumerate(targets, start=1)
    ]


def follow(state: State) -> list[Event]:
    """A house job for the next exam that has none."""
    for sitting in state.exams.values():
        if not sitting.job and not sitting.over:
            return [house_job(state, EXAM + sitting.exam, f"exam of {sitting.target}")]
    return []


def graded(state: State, seen: ExamGraded) -> list[Event]:
    """A score: correct of n, with the answers kept."""
    sitting = state.exams.get(seen.exam)
    if sitting is None or sitting.over or not 0 <= seen.correct <= seen.n or seen.n != sitting.n:
        return [ObservationIgnored(seen.exam, "ExamGraded")]
    return [ExamScored(sitting.exam, sitting.target, seen.correct, seen.n, seen.answers)]


def broke(state: State, seen: ExamBroke) -> list[Event]:
    """Unscored, never zero; an organiser is told."""
    sitting = state.exams.get(seen.exam)
    if sitting is None or sitting.over:
        return [ObservationIgnored(seen.exam, "ExamBroke")]
    return [
        ExamFailed(sitting.exam, sitting.target, seen.code, clip(seen.evidence)),
        AlarmRaised(
            f"exam_failed:{sitting.target}", clip(f"{sitting.target} could not be examined: {seen.evidence}")
        ),
    ]


def out_of_time(state: State) -> list[Event]:
    """The judging stage is over: models without a score stay unscored."""
    return [
        ExamFailed(sitting.exam, sitting.target, "judging_over", "no score before the judging stage ended")
        for sitting in state.exams.values()
        if not sitting.over
    ]
