"""Events of the run itself: opened, served, staged, paused, alarmed."""

from __future__ import annotations

from typing import ClassVar, Literal

from palestra.events.base import Event
from palestra.rules.competition import Competition
from palestra.rules.units import Digest, Moment

Stage = Literal["announced", "running", "closing", "judging", "results"]
STAGES: tuple[Stage, ...] = ("announced", "running", "closing", "judging", "results")


class RunOpened(Event, frozen=True):
    """The rules as they stand for good; the files' bytes are blobs by digest."""

    run: str
    rules: Competition
    start: Moment
    competition: Digest
    terms: Digest
    exam_program: Digest
    base: Digest
    exam_seed_commitment: str
    """sha256 over the exam's secret seed, revealed with ExamStarted."""
    isolation: str


class ServerStarted(Event, frozen=True):
    """A server process took the run over; calls that were open are charged at their ceiling right after."""

    pid: int
    release: str


class ServerStopped(Event, frozen=True):
    """A server process left in good order."""

    pid: int
    how: str


class TailRepaired(Event, frozen=True):
    """The journal ended in part of a write that was never acknowledged; its bytes were set aside."""

    size: int
    kept_as: str


class StageEntered(Event, frozen=True):
    """A stage began, by the clock or because nothing was left to wait for."""

    stage: Stage
    why: str


class Paused(Event, frozen=True):
    """No calls and no starts from here; running jobs go on and pay."""

    by: str
    reason: str
    asked: str = ""


class Resumed(Event, frozen=True):
    """The pause is over."""

    by: str
    asked: str = ""


class EndAsked(Event, frozen=True):
    """An organiser ended the running stage."""

    by: str
    reason: str
    asked: str = ""


class Refused(Event, frozen=True):
    """The first no of this code to this corner about this subject; repeats are counted."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    code: str
    about: str
    message: str
    asked: str = ""


class RefusalsCounted(Event, frozen=True):
    """How often the same no was repeated since it was last counted."""

    SUBJECT: ClassVar[str] = "corner"
    corner: str
    code: str
    about: str
    count: int


class AlarmRaised(Event, frozen=True):
    """Something an organiser must look at."""

    SUBJECT: ClassVar[str] = "alarm"
    alarm: str
    """`code:subject`, so that the same trouble is one alarm."""
    text: str


class AlarmCleared(Event, frozen=True):
    """The trouble is gone."""

    SUBJECT: ClassVar[str] = "alarm"
    alarm: str


class ObservationIgnored(Event, frozen=True):
    """The world reported something about an id that isn't open (any more)."""

    SUBJECT: ClassVar[str] = "about"
    about: str
    what: str


class ReportFrozen(Event, frozen=True):
    """A document was made from the record up to `upto`, and is the official one."""

    SUBJECT: ClassVar[str] = "name"
    name: str
    digest: Digest
    upto: int
