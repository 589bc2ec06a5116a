"""Exams that were started, and their scores; a failed one stays without a score, never zero (F36)."""

from __future__ import annotations

from msgspec.structs import replace

from palestra.events.base import Entry, Event
from palestra.events.exams import ExamFailed, ExamScored, ExamStarted
from palestra.events.jobs import JobSubmitted
from palestra.state.arena import Sitting, State

EXAM = "exam:"
"""Purpose of a house job that asks a model the hidden questions."""
BASE = "base"
"""The target that is the base model itself."""


KINDS: tuple[type[Event], ...] = (ExamStarted, ExamScored, ExamFailed, JobSubmitted)


def fold(state: State, entry: Entry) -> None:
    """Take one event of an exam in."""
    match entry.event:
        case ExamStarted() as event:
            state.exams[event.exam] = Sitting(event.exam, event.target, event.seed, event.questions, event.n)
            state.counters["run", "x"] = state.counters.get(("run", "x"), 0) + 1
        case ExamScored() as event:
            sitting = state.exams[event.exam]
            state.exams[event.exam] = replace(
                sitting, correct=event.correct, n=event.n, answers=event.answers
            )
        case ExamFailed() as event:
            state.exams[event.exam] = replace(state.exams[event.exam], failed=event.code)
        case JobSubmitted(job=job, purpose=purpose):
            if purpose.startswith(EXAM):
                exam = purpose.removeprefix(EXAM)
                state.exams[exam] = replace(state.exams[exam], job=job)
