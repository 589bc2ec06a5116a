"""A served run on fakes that can die between any two steps: what is outside survives, what is inside is rebuilt from the rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from tests.building import RUN, SEED, START, competition, open_run

from palestra.cluster.fake import Behaviour, FakeExecutor, FakeProcesses
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.ports import Answer, AttemptSpec, Process, Question, Score
from palestra.referee.observations import CallAnswered, Observation, ServerUp, Tick
from palestra.referee.requests import Receipt, Request, ReserveCall
from palestra.rules.competition import Competition
from palestra.rules.errors import Refusal
from palestra.rules.manifest import Facts, Manifest, ManifestFile, artifact_digest, identity_bytes
from palestra.rules.prices import Usage
from palestra.rules.units import SECOND, Digest, Micros, Moment
from palestra.runtime.book import Book
from palestra.runtime.clock import VirtualClock
from palestra.runtime.compare import Act, StopAttempt, StopSession, World, compare
from palestra.runtime.hands import Hands, Surroundings
from palestra.runtime.house import House
from palestra.runtime.reconciler import still_open
from palestra.serving.plan import Done, Plan, read_questions, write_lines
from palestra.serving.probes import Judged
from palestra.state.queue import HOUSE
from palestra.vault.fake import FakeVault


class Died(Exception):
    """The server was killed here."""


class Quiz:
    """An exam without a program: every answer is right."""

    def questions(self, seed: str, n: int) -> list[Question]:
        return [Question(f"q{number}", (("user", f"{seed} {number}"),), 8) for number in range(n)]

    def score(self, seed: str, n: int, answers: Sequence[Answer]) -> Score:
        return Score(len({answer.id for answer in answers}), n)


class Outside:
    """The world: it doesn't notice that a server dies."""

    def __init__(self, folder: Path, behave: Callable[[AttemptSpec], Behaviour]) -> None:
        self.folder = folder
        self.clock = VirtualClock(START)
        self.journal = MemoryJournal(RUN)
        self.record = MemoryRecord()
        self.executor = FakeExecutor(self.clock.now, lambda spec: self._behave(spec, behave))
        self.sessions = FakeProcesses(self.clock.now, self._agent)
        self.vault = FakeVault(self.clock.now)
        self.upstream: Counter[str] = Counter()
        """Model calls that reached the upstream, by call id."""

    def _behave(self, spec: AttemptSpec, behave: Callable[[AttemptSpec], Behaviour]) -> Behaviour:
        if spec.corner == HOUSE:
            self._answer(Path(spec.argv[-1]))
            return Behaviour(runs=Micros(5 * SECOND))
        return behave(spec)

    @staticmethod
    def _agent(key: str, process: Process) -> Behaviour:
        return Behaviour(runs=None)

    @staticmethod
    def _answer(plan_file: Path) -> None:
        """What a house attempt leaves: an answer to each question, and word that it is done."""
        plan = msgspec.json.decode(plan_file.read_bytes(), type=Plan)
        questions = read_questions(Path(plan.requests))
        given = [Answer(one.id, "right", "stop") for one in questions]
        write_lines(Path(plan.answers), given)
        judged = Judged(probes=len(given), stopped=len(given), differing=len(given))
        Path(plan.done).write_bytes(msgspec.json.encode(Done(n=len(given), judged=judged)))


def weights(name: str) -> Manifest:
    """A sealed checkpoint of one file."""
    sha = hashlib.sha256(name.encode()).hexdigest()
    return Manifest(Facts(), (ManifestFile(10**9, "model.safetensors", sha),), "palestra-manifest/1")


class Inside:
    """One server's life. `doom` steps from now it dies, wherever that is."""

    def __init__(self, outside: Outside, rules: Competition | None = None, doom: int | None = None) -> None:
        self.outside = outside
        self.doom = doom
        self.book = Book(RUN)
        self.book.load(outside.journal.read(0, 10**9))
        self._once: set[Act] = set()
        if self.book.seq == 0:
            self.ask(open_run(rules or competition()))
        self.tell(ServerUp(1, "0"))
        house = House(outside.folder / "house", self.book.state.rules.serving, Path("/base"), Quiz(), RUN)
        corners = list(self.book.state.corners)
        around = Surroundings(
            spool=outside.folder / "spool",
            homes=outside.folder / "homes",
            base=Path("/base"),
            reports=outside.folder,
            tokens=dict.fromkeys(corners, "token"),
            sockets=dict.fromkeys(corners, "/socket"),
            arena=Path("/bin/arena"),
            python="/usr/bin/python3",
            exam_seed=SEED,
        )
        self._hands = Hands(
            outside.executor,
            outside.sessions,
            outside.vault,
            outside.record,
            Quiz(),
            house,
            around,
            self.keep,
        )

    def keep(self, data: bytes) -> Digest:
        """Bodies are durable at once here; the order of commits is the journal suite's matter."""
        return self.outside.record.put(data)

    def step(self) -> None:
        """A place to die at."""
        if self.doom is not None:
            self.doom -= 1
            if self.doom < 0:
                raise Died

    def ask(self, request: Request) -> Receipt | Refusal:
        """Ruled, folded, committed, answered: death before the commit loses it, after it only the answer."""
        outcome = self.book.ask(request, self.outside.clock.now())
        self.step()
        self.outside.journal.append(outcome.rows)
        self.step()
        return outcome.answer

    def tell(self, observation: Observation) -> None:
        """Folded and committed."""
        rows = self.book.tell(observation, self.outside.clock.now())
        self.step()
        self.outside.journal.append(rows)
        self.step()

    def nominate_body(self, name: str) -> Digest:
        """What the entrant's door keeps before it asks."""
        manifest = weights(name)
        self.keep(identity_bytes(manifest))
        return artifact_digest(manifest)

    def call_model(self, corner: str) -> None:
        """A model call from hold to settlement."""
        receipt = self.ask(ReserveCall(corner, None, "small", 1_000, 1_000))
        if isinstance(receipt, Receipt):
            self.step()
            self.outside.upstream[receipt.id] += 1
            self.step()
            self.tell(CallAnswered(receipt.id, Usage(fresh_input=700, output=300), 200, "stop"))

    def round(self) -> bool:
        """One round of the reconciler, step by step; tells whether anything was told or done."""
        out = self.outside
        polled = out.executor.poll()
        assert isinstance(polled, list)
        world = World(
            {one.attempt: one for one in polled},
            {one.key: one for one in out.sessions.poll()},
            {one.copy: one for one in out.vault.results()},
        )
        told, acts = compare(self.book.state, world)
        self.step()
        for observation in told:
            self.tell(observation)
        view = self.book.view(out.clock.now())
        before = self.book.seq
        done = 0
        for act in acts:
            if act in self._once or not still_open(act, view.state):
                continue
            run = self._hands.prepare(act, view)
            self.step()
            for observation in run():
                self.step()
                self.tell(observation)
            self.step()
            done += 1
            if isinstance(act, (StopAttempt, StopSession)):
                self._once.add(act)
        return bool(told) or self.book.seq != before

    def wait(self, span: int) -> None:
        """Time goes by; a tick tells of it."""
        self.outside.clock.move_to(Moment(self.outside.clock.now() + span))
        self.tell(Tick())
