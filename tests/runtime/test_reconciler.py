"""The loop that makes the world match the book: what it starts, what it hears of, and what becomes of an act that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.building import RUN, SEED, competition, digest, events_of, open_run, spec
from tests.runtime.crashing import Quiz

from palestra.cluster.fake import Behaviour, FakeExecutor, FakeProcesses
from palestra.events.base import Event
from palestra.events.jobs import AttemptEnded
from palestra.events.runs import AlarmCleared, AlarmRaised
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.journal.writer import SyncWriter
from palestra.ports import AttemptSpec, Process
from palestra.referee.observations import ServerUp
from palestra.referee.requests import CancelJob, Receipt, SubmitJob
from palestra.rules.errors import Broken
from palestra.rules.units import HOUR, Micros, Moment
from palestra.runtime.book import Book
from palestra.runtime.clock import DRIFT, RunClock
from palestra.runtime.compare import (
    FreezeScoreboard,
    GradeExam,
    MakeQuestions,
    StartAttempt,
    StopSession,
)
from palestra.runtime.desk import Desk
from palestra.runtime.hands import Hands, Surroundings
from palestra.runtime.house import House
from palestra.runtime.reconciler import Reconciler, name_act, say_failure
from palestra.vault.fake import FakeVault

DEADLINE = 60.0


class Flaky(FakeExecutor):
    """Its next submissions fail as told."""

    def __init__(self, now: Callable[[], Moment], behave: Callable[[AttemptSpec], Behaviour]) -> None:
        super().__init__(now, behave)
        self.failures: list[Exception] = []

    def submit(self, spec: AttemptSpec, key: str) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return super().submit(spec, key)


class Office:
    """A desk and its reconciler on fakes, with real time."""

    def __init__(self, folder: Path, room: int | None = None) -> None:
        self.start = RunClock().now()
        self.skew = 0
        self.clock = RunClock(wall=lambda: RunClock().now() + self.skew)
        self.journal, self.record = MemoryJournal(RUN, room=room), MemoryRecord()
        self.desk = Desk(Book(RUN), SyncWriter(self.journal, self.record), self.clock)
        self.executor = Flaky(self.clock.now, self._behave)
        self.sessions = FakeProcesses(self.clock.now, self._agent)
        self.rules = competition(running=6 * HOUR)
        vault = FakeVault(self.clock.now)
        house = House(folder / "house", self.rules.serving, Path("/base"), Quiz(), RUN)
        around = Surroundings(
            spool=folder / "spool", homes=folder / "homes", base=Path("/base"), reports=folder,
            tokens=dict.fromkeys("AB", "token"), sockets=dict.fromkeys("AB", "/socket"), arena=Path("/bin/arena"),
            python="/usr/bin/python3", exam_seed=SEED,
        )  # fmt: skip
        hands = Hands(self.executor, self.sessions, vault, self.record, Quiz(), house, around, self.desk.keep)
        self.reconciler = Reconciler(self.desk, self.executor, self.sessions, vault, hands, self.clock)

    @staticmethod
    def _behave(spec: AttemptSpec) -> Behaviour:
        return Behaviour(runs=None if spec.limit == HOUR else Micros(1))

    @staticmethod
    def _agent(key: str, process: Process) -> Behaviour:
        return Behaviour(runs=None)

    @property
    def events(self) -> list[Event]:
        return events_of(self.journal.read(0, 1_000_000))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not true():  # noqa: ASYNC110  # what is waited for is anything that the test can see
                await asyncio.sleep(0.005)


@asynccontextmanager
async def working(folder: Path) -> AsyncIterator[Office]:
    """Opened, served, reconciled."""
    office = Office(folder)
    assert isinstance(await office.desk.ask(open_run(office.rules, office.start)), Receipt)
    await office.desk.tell(ServerUp(1, "0"))
    loop = asyncio.create_task(office.reconciler.run())
    try:
        yield office
    finally:
        loop.cancel()
        await asyncio.wait({loop})


def test_agents_and_jobs_are_started_and_their_ends_are_heard_of(tmp_path: Path) -> None:
    async def go() -> None:
        async with working(tmp_path) as office:
            await office.desk.ask(SubmitJob("A", None, spec(limit=HOUR // 2)))
            await office.until(lambda: any(isinstance(event, AttemptEnded) for event in office.events))
            assert office.executor.starts == ["A-j1.1"]
            assert sorted(office.sessions.starts) == ["A-s1", "B-s1"]
            assert not office.desk.view().state.attempts

    asyncio.run(go())


def test_a_job_is_stopped_once(tmp_path: Path) -> None:
    async def go() -> None:
        async with working(tmp_path) as office:
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: bool(office.executor.starts))
            await office.desk.ask(CancelJob("A", None, "A-j1"))
            await office.until(lambda: not office.desk.view().state.attempts)
            ended = next(event for event in office.events if isinstance(event, AttemptEnded))
            assert (ended.end, ended.cause) == ("cancelled", "cancelled")

    asyncio.run(go())


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Broken("the disk of node n1 is full"), "the disk of node n1 is full"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (ValueError("embedded null byte"), "ValueError: embedded null byte"),
    ],
)
def test_an_act_that_fails_is_an_alarm_and_tried_again(
    tmp_path: Path, failure: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One alarm a thing that fails, in a sentence, cleared when it works: and the server goes on."""

    async def go() -> None:
        async with working(tmp_path) as office:
            office.executor.failures = [failure]
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: bool(office.desk.view().state.alarms))
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: "A-j2.1" in office.executor.starts)
            assert list(office.desk.view().state.alarms) == ["start_attempt:A-j1.1"], (
                "another start clears nothing"
            )
            raised = [event for event in office.events if isinstance(event, AlarmRaised)]
            assert [event.text for event in raised] == [
                f"start attempt failed for A-j1.1 and is tried again: {said}"
            ]
            await office.until(lambda: "A-j1.1" in office.executor.starts)
            await office.until(lambda: not office.desk.view().state.alarms)
            cleared = [event for event in office.events if isinstance(event, AlarmCleared)]
            assert [event.alarm for event in cleared] == ["start_attempt:A-j1.1"]

    asyncio.run(go())
    expected = not isinstance(failure, Broken | OSError)
    assert any(record.exc_info for record in caplog.records) == expected, (
        "only what nobody foresaw leaves a traceback"
    )


def test_the_alarm_goes_when_the_act_isnt_wanted_any_more(tmp_path: Path) -> None:
    async def go() -> None:
        async with working(tmp_path) as office:
            office.executor.failures = [Broken("no")] * 1000
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: bool(office.desk.view().state.alarms))
            await office.desk.ask(CancelJob("A", None, "A-j1"))
            await office.until(lambda: not office.desk.view().state.attempts)
            await office.until(lambda: not office.desk.view().state.alarms)

    asyncio.run(go())


def test_an_unreachable_engine_is_an_alarm_and_loses_nothing(tmp_path: Path) -> None:
    """F21: nothing is concluded while the engine can't be asked."""

    async def go() -> None:
        async with working(tmp_path) as office:
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: bool(office.executor.starts))
            office.executor.unreachable = "the controller doesn't answer"
            await office.until(lambda: "unreachable:executor" in office.desk.view().state.alarms)
            assert office.desk.view().state.attempts
            office.executor.unreachable = ""
            await office.until(lambda: not office.desk.view().state.alarms)
            assert list(office.desk.view().state.attempts) == ["A-j1.1"]

    asyncio.run(go())


@pytest.mark.parametrize(("skew", "word"), [(3 * DRIFT, "ahead of"), (-3 * DRIFT, "behind")])
def test_f56_a_straying_wall_clock_is_an_alarm(tmp_path: Path, skew: int, word: str) -> None:
    async def go() -> None:
        async with working(tmp_path) as office:
            before = office.clock.now()
            office.skew = skew
            await office.desk.ask(SubmitJob("A", None, spec()))
            await office.until(lambda: "clock_drift:server" in office.desk.view().state.alarms)
            text = office.desk.view().state.alarms["clock_drift:server"]
            assert text == f"the wall clock is more than 2 s {word} the run's clock, which goes on evenly"
            assert before <= office.clock.now() < before + DEADLINE * 1_000_000
            office.skew = 0
            office.desk.wake()
            await office.until(lambda: not office.desk.view().state.alarms)

    asyncio.run(go())


def test_the_loop_ends_with_a_desk_that_cannot_write(tmp_path: Path) -> None:
    """Nothing is started any more, and the one error says so."""

    async def go() -> None:
        office = Office(tmp_path, room=3)  # as many rows as an opening has
        await office.desk.ask(open_run(office.rules, office.start))
        await office.desk.tell(ServerUp(1, "0"))
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(Broken, match=r"the journal (has stopped: no room for row|can't be written)"):
                await office.reconciler.run()
        assert not office.sessions.starts

    asyncio.run(go())


def test_failures_are_told_in_sentences() -> None:
    assert name_act(MakeQuestions()) == "make_questions:run"
    assert name_act(GradeExam("x1", "house-j1")) == "grade_exam:x1"
    assert name_act(StopSession("A-s1")) == "stop_session:A-s1"
    assert say_failure(FreezeScoreboard(), OSError(13, "Permission denied", "/reports")) == (
        "freeze scoreboard failed for run and is tried again: [Errno 13] Permission denied: '/reports'"
    )
    assert say_failure(StartAttempt("A-j1.1"), KeyError(digest("x"))).startswith(
        "start attempt failed for A-j1.1 and is tried again: KeyError: 'sha256:"
    )
