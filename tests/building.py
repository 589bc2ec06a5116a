"""A small competition and a rehearsal of it: requests and facts in, rows out, under a clock that only the test moves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tests.sealing import sealed

from palestra.events.base import Event
from palestra.events.codec import Row, read_entry
from palestra.events.jobs import JobSpec
from palestra.events.nominations import AnswerSettings, Inspection
from palestra.events.runs import Stage
from palestra.referee.exams import commitment
from palestra.referee.observations import (
    AttemptExited,
    CallAnswered,
    CopyDone,
    Observation,
    Probed,
    ServerUp,
    Tick,
)
from palestra.referee.requests import (
    Nominate,
    OpenRun,
    Receipt,
    Request,
    ReserveCall,
    SubmitJob,
)
from palestra.rules.competition import (
    Allowance,
    Base,
    Competition,
    EntrantRule,
    Exam,
    JobRules,
    Model,
    Node,
    PauseRule,
    Serving,
    Stages,
    Upstream,
)
from palestra.rules.errors import Refusal
from palestra.rules.prices import Price, Usage
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Bytes, Digest, GpuMicros, Micros, Moment, NanoDollars
from palestra.runtime.book import Book
from palestra.state.arena import Account, State

START = Moment(1_796_137_200_000_000)
"""2026-12-01T15:00Z."""
GB = 10**9
SEED = "5eed"
RUN = "rehearsal-00000000"
ENTRANTS = (
    EntrantRule("Agent One", "Lab One", model="small"),
    EntrantRule("Agent Two", "Lab Two", model="small"),
)
SMALL = Model(
    "small",
    "upstream",
    "small-1",
    Price(
        input=NanoDollars(DOLLAR),
        output=NanoDollars(4 * DOLLAR),
        cached_input=NanoDollars(DOLLAR // 10),
        cache_write=NanoDollars(5 * DOLLAR // 4),
    ),
)
LORA = Inspection(kind="lora", tensors=60, identical=0, relative_delta=0.02)
FULL = Inspection(kind="full", tensors=290, identical=1, relative_delta=0.004)
E = TypeVar("E", bound=Event)


def digest(text: str) -> Digest:
    """A content digest to name things by."""
    return Digest("sha256:" + hashlib.sha256(text.encode()).hexdigest())


def competition(
    *,
    running: int = 6 * HOUR,
    closing: int = HOUR,
    judging: int = HOUR,
    pause: PauseRule = "extend",
    end_when_all_finished: bool = False,
    api_credit: int = 10 * DOLLAR,
    gpu_time: int = 40 * HOUR,
    nodes: Sequence[Node] = (Node("n1", 8, Bytes(513 * GB)),),
    memory_per_gpu: int = 64 * GB,
    gpus_per_job: int = 8,
    gpus_running: int = 8,
    queued: int = 20,
    longest: int = 4 * HOUR,
    model: Model = SMALL,
    entrants: tuple[EntrantRule, ...] = ENTRANTS,
    serving_memory: int = GB,
    serving_gpus: int = 0,
) -> Competition:
    """Rules with everything in them, of which a test names only what it is about."""
    return Competition(
        name="rehearsal",
        title="Rehearsal",
        zone="UTC",
        stages=Stages(
            None, Micros(running), Micros(closing), Micros(judging), pause, end_when_all_finished
        ),
        allowance=Allowance(NanoDollars(api_credit), GpuMicros(gpu_time)),
        base=Base("base"),
        nodes=tuple(nodes),
        jobs=JobRules(Micros(longest), Bytes(memory_per_gpu), gpus_per_job, gpus_running, queued),
        upstreams=(Upstream("upstream", playbooks="playbooks"),),
        models=(model,),
        entrants=entrants,
        serving=Serving(
            ("serve",), ("serve",), ("serve",), Bytes(serving_memory), Micros(30 * MINUTE), gpus=serving_gpus
        ),
        exam=Exam("exam.py", 1_000),
    )  # fmt: skip


def open_run(rules: Competition, start: int = START) -> OpenRun:
    """The request that a run begins with."""
    return OpenRun(
        "server", None, RUN, rules, Moment(start), digest("competition"), digest("terms"), digest("exam"),
        digest("base"), commitment(SEED), "none",
    )  # fmt: skip


def spec(*, gpus: int = 1, memory: int = GB, limit: int = HOUR, outputs: tuple[str, ...] = ()) -> JobSpec:
    """What is asked of the cluster."""
    return JobSpec(
        name="train", argv=("python", "train.py"), gpus=gpus, memory=Bytes(memory), limit=Micros(limit),
        outputs=outputs,
    )  # fmt: skip


def events_of(rows: Iterable[Row]) -> list[Event]:
    """What the rows tell."""
    return [read_entry(row).event for row in rows]


class Rehearsal:
    """One run's book with a clock of its own. All that is ruled is ruled sealed off from the world."""

    def __init__(
        self, rules: Competition | None = None, *, start: int = START, at: int | None = None
    ) -> None:
        self.at = Moment(start if at is None else at)
        self.rows: list[Row] = []
        self.book = Book(RUN)
        self.grant(open_run(rules or competition(), start))
        self.tell(ServerUp(1, "0"))

    @property
    def state(self) -> State:
        """The state as it is; never kept."""
        return self.book.state

    def ask(self, request: Request) -> Receipt | Refusal:
        """Ask at the clock's instant."""
        with sealed():
            outcome = self.book.ask(request, self.at)
        self.rows += outcome.rows
        return outcome.answer

    def tell(self, observation: Observation) -> list[Event]:
        """Tell at the clock's instant; the events that came of it."""
        with sealed():
            rows = self.book.tell(observation, self.at)
        self.rows += rows
        return events_of(rows)

    def grant(self, request: Request) -> str:
        """Ask what must be granted; the id of what was made."""
        answer = self.ask(request)
        assert isinstance(answer, Receipt), f"refused: {answer.code}: {answer}"
        return answer.id

    def refuse(self, request: Request) -> Refusal:
        """Ask what must be refused."""
        answer = self.ask(request)
        assert isinstance(answer, Refusal), f"granted: {answer}"
        return answer

    def wait(self, span: int) -> list[Event]:
        """Let time go by, and a tick at its end."""
        return self.until(self.at + span)

    def until(self, at: int) -> list[Event]:
        """Let time go by up to an instant, and a tick at it."""
        self.at = Moment(at)
        return self.tell(Tick())

    def restart(self, rows: Sequence[Row] | None = None) -> list[Event]:
        """A killed server's successor: what was folded is gone, the rows are read again."""
        self.rows = list(self.rows if rows is None else rows)
        self.book = Book(RUN)
        with sealed():
            self.book.load(self.rows)
        return self.tell(ServerUp(2, "0"))

    def last(self, kind: type[E]) -> E:
        """The latest event of a kind."""
        return next(event for event in reversed(events_of(self.rows)) if isinstance(event, kind))

    def stage(self) -> Stage:
        """The stage the run is in."""
        return self.state.clock.stage

    def account(self, corner: str, resource: str) -> Account:
        """A corner's ledger for `api` or `gpu`."""
        return self.state.accounts[corner, resource]

    # What entrants do

    def submit(
        self,
        corner: str = "A",
        *,
        gpus: int = 1,
        memory: int = GB,
        limit: int = HOUR,
        outputs: tuple[str, ...] = (),
    ) -> str:
        """Queue a job that is accepted."""
        asked = spec(gpus=gpus, memory=memory, limit=limit, outputs=outputs)
        return self.grant(SubmitJob(corner, None, asked))

    def reserve(self, corner: str = "A", *, bound: int = 1_000, cap: int | None = 1_000) -> str:
        """Hold money for a call that is allowed."""
        return self.grant(ReserveCall(corner, None, "small", bound, cap))

    def nominate(
        self, corner: str = "A", weights: str = "w1", settings: AnswerSettings | None = None, size: int = GB
    ) -> str:
        """Request a nomination that is accepted for copying."""
        answers = settings or AnswerSettings()
        return self.grant(Nominate(corner, None, digest(weights), f"out/{weights}", Bytes(size), answers))

    # What the world reports

    def answer(self, call: str, usage: Usage | None) -> list[Event]:
        """The upstream answered."""
        return self.tell(CallAnswered(call, usage, 200, "stop"))

    def exit(
        self, job: str, code: int | None = 0, *, ran: int | None = MINUTE, **facts: object
    ) -> list[Event]:
        """A job's running attempt ended; it ran for so long by the shim's own times."""
        attempt = self.state.jobs[job].attempt
        ended = None if ran is None else Moment(self.at)
        started = None if ran is None else Moment(self.at - ran)
        return self.tell(AttemptExited(attempt, code, started, ended, **facts))  # type: ignore[arg-type]

    def copied(self, nomination: str, inspection: Inspection = LORA, *, again: bool = False) -> list[Event]:
        """The vault kept a nomination's weights."""
        one = self.state.nominations[nomination]
        return self.tell(CopyDone(one.copy, one.artifact, Bytes(GB), inspection, again))

    def probed(self, nomination: str, **facts: object) -> list[Event]:
        """Its validation ended, and the probes were read."""
        job = self.state.nominations[nomination].job
        if job in self.state.jobs:
            self.exit(job)
        said = {"served": True, "probes": 8, "stopped": 8, "differing": 5} | facts
        return self.tell(Probed(nomination, **said))  # type: ignore[arg-type]

    def accept(self, nomination: str, inspection: Inspection = LORA) -> list[Event]:
        """Copied, served, probed."""
        return self.copied(nomination, inspection) + self.probed(nomination)

    def current(self, corner: str) -> str:
        """The nomination that would be judged now."""
        return self.state.corners[corner].current
