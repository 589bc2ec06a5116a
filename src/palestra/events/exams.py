"""Events of exams: started with the revealed seed, then scored or failed."""

from __future__ import annotations

from typing import ClassVar

from palestra.events.base import Event
from palestra.rules.units import Digest


class ExamStarted(Event, frozen=True):
    """A model is to answer the hidden questions. `target` is a nomination, or `base`."""

    SUBJECT: ClassVar[str] = "exam"
    exam: str
    target: str
    seed: str
    questions: Digest
    n: int


class ExamScored(Event, frozen=True):
    """Correct answers out of n; the answers are kept, so that anyone can score them again."""

    SUBJECT: ClassVar[str] = "exam"
    exam: str
    target: str
    correct: int
    n: int
    answers: Digest


class ExamFailed(Event, frozen=True):
    """The model could not be examined; it is unscored, never zero (F36)."""

    SUBJECT: ClassVar[str] = "exam"
    exam: str
    target: str
    code: str
    evidence: str
