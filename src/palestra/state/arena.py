"""The whole state of a run: what is open or current, by id, plus totals. Values are frozen; only folds change the dicts."""

from __future__ import annotations

import copy
from typing import Literal

import msgspec

from palestra.events.jobs import Cause, JobSpec
from palestra.events.nominations import AnswerSettings, Inspection
from palestra.events.runs import RunOpened, Stage
from palestra.rules.competition import Competition
from palestra.rules.units import Digest, Moment


class Account(msgspec.Struct, frozen=True):
    """One running account: nano-dollars (`api`) or GPU-microseconds (`gpu`)."""

    limit: int
    spent: int = 0
    held: int = 0

    @property
    def left(self) -> int:
        """What may still be held."""
        return self.limit - self.spent - self.held


class OpenCall(msgspec.Struct, frozen=True):
    """A model call whose end isn't known yet."""

    call: str
    corner: str
    model: str
    hold: int
    input_bound: int
    output_cap: int
    asked_cap: int | None


class Timekeeping(msgspec.Struct, frozen=True):
    """Stage and pauses. `start` is T+0:00 and never moves; T+ counts on through pauses and downtime."""

    start: Moment = Moment(0)
    stage: Stage = "announced"
    entered: Moment = Moment(0)
    pauses: tuple[tuple[Moment, Moment | None], ...] = ()
    paused_by: str = ""
    end_asked: bool = False
    server: int = 0
    """Pid of the serving process, 0 when none is."""

    @property
    def paused(self) -> bool:
        """A pause is open."""
        return bool(self.pauses) and self.pauses[-1][1] is None


class Corner(msgspec.Struct, frozen=True):
    """One seat. `name` is the alias where there is one."""

    corner: str
    name: str
    lab: str
    harness: str
    model: str
    seated: Moment
    finished: Moment | None = None
    quick_failures: int = 0
    """Sessions in a row that ended on their own too soon to have worked."""
    restart_at: Moment = Moment(0)
    broke: bool = False
    current: str = ""
    """The nomination that would be judged now."""
    command: tuple[str, ...] = ()
    """The argv of the `command` harness."""
    removed: bool = False
    """Taken out by an organiser: finished, and not judged."""


class Announced(msgspec.Struct, frozen=True):
    """An entrant that will take its corner at `starts`."""

    corner: str
    name: str
    lab: str
    harness: str
    model: str
    starts: Moment
    command: tuple[str, ...] = ()
    sealed_name: str = ""


class Session(msgspec.Struct, frozen=True):
    """An agent's process that is running, or should be."""

    session: str
    corner: str
    started: Moment
    stopping: str = ""


class Job(msgspec.Struct, frozen=True):
    """A job in the queue or on a node. `attempt` is the running one's id, empty while it waits."""

    job: str
    corner: str
    spec: JobSpec
    submitted: Moment
    purpose: str = ""
    attempt: str = ""
    attempts: int = 0
    wait: tuple[str, tuple[str, ...]] | None = None
    """The last recorded (resource, blockers)."""


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job, holding its place until it has ended."""

    attempt: str
    job: str
    corner: str
    node: str
    gpus: tuple[int, ...]
    memory: int
    limit: int
    hold: int
    started: Moment
    stopping: Cause = "none"
    stopped_by: str = ""


class Nomination(msgspec.Struct, frozen=True):
    """A nomination that is pending or current. `number` orders requests."""

    nomination: str
    corner: str
    number: int
    artifact: Digest
    path: str
    settings: AnswerSettings
    requested: Moment
    state: Literal["requested", "copying", "kept", "validating", "accepted"] = "requested"
    copy: str = ""
    job: str = ""
    """The house job that validates it."""


class Sitting(msgspec.Struct, frozen=True):
    """One model's exam. `correct` is None until it is scored; `failed` names why it never will be."""

    exam: str
    target: str
    seed: str
    questions: Digest
    n: int
    job: str = ""
    correct: int | None = None
    answers: Digest = Digest("")
    failed: str = ""

    @property
    def over(self) -> bool:
        """Scored, or failed for good."""
        return self.correct is not None or bool(self.failed)


class Answered(msgspec.Struct, frozen=True):
    """What a keyed request got; `asked` is the request's fingerprint, so that a reused key is noticed."""

    kind: str
    id: str
    seq: int
    asked: str
    refusal: tuple[str, str] | None = None


class State(msgspec.Struct):
    """Values are frozen; only a fold changes the dicts. The referee reads, and never writes."""

    opened: RunOpened | None = None
    seq: int = 0
    at: int = 0
    clock: Timekeeping = Timekeeping()
    corners: dict[str, Corner] = {}
    announced: dict[str, Announced] = {}
    sessions: dict[str, Session] = {}
    accounts: dict[tuple[str, str], Account] = {}
    calls: dict[str, OpenCall] = {}
    jobs: dict[str, Job] = {}
    attempts: dict[str, Attempt] = {}
    nominations: dict[str, Nomination] = {}
    kept: dict[Digest, Inspection] = {}
    exams: dict[str, Sitting] = {}
    counters: dict[tuple[str, str], int] = {}
    answers: dict[tuple[str, str], Answered] = {}
    refused: dict[tuple[str, str, str], int] = {}
    """First refusals by (corner, code, about), and the row that tells of them."""
    alarms: dict[str, str] = {}
    reports: dict[str, Digest] = {}

    @property
    def rules(self) -> Competition:
        """The competition's rules; only a run that is opened has any."""
        assert self.opened is not None, "the run isn't opened"
        return self.opened.rules

    def copy(self) -> State:
        """A state of its own for dry runs: dicts are copied, the frozen values shared."""
        twin = copy.copy(self)
        for name in self.__struct_fields__:
            value = getattr(twin, name)
            if isinstance(value, dict):
                setattr(twin, name, dict(value))
        return twin


def next_id(state: State, corner: str, letter: str) -> str:
    """The next id of a corner's counter: `A-j17`. Counters only go up, so no id is used twice."""
    return f"{corner}-{letter}{state.counters.get((corner, letter), 0) + 1}"
