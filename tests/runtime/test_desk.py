"""The one writer: ruled at once, answered once durable, bodies before the rows that name them, and nothing after a failed commit."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.building import RUN, START, competition, events_of, open_run, spec

from palestra.events.codec import Row
from palestra.events.jobs import JobSubmitted
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.journal.writer import SyncWriter, Writer
from palestra.ports import StepRow
from palestra.referee.observations import ServerUp, Tick
from palestra.referee.requests import Finish, Pause, Receipt, SubmitJob
from palestra.rules.errors import Broken, Refusal
from palestra.rules.units import HOUR, Digest, Moment
from palestra.runtime.book import Book
from palestra.runtime.clock import RunClock, VirtualClock
from palestra.runtime.desk import Desk

DEADLINE = 30.0
SLOWEST = 0.02
"""Seconds in which nothing happens, where nothing may."""


class Disk(SyncWriter):
    """A journal whose commits are acknowledged when the test says; `order` is what reached it, in order."""

    def __init__(self, journal: MemoryJournal, record: MemoryRecord) -> None:
        super().__init__(journal, record)
        self.waiting: list[Future[None]] = []
        self.slow = False
        self.order: list[tuple[str, ...]] = []

    def submit(
        self, rows: Sequence[Row], blobs: Sequence[bytes | Path] = (), steps: Sequence[StepRow] = ()
    ) -> Future[None]:
        self.order.append(tuple(row.kind for row in rows))
        done = super().submit(rows, blobs, steps)
        if not self.slow:
            return done
        self.waiting.append(Future())
        return self.waiting[-1]

    def acknowledge(self) -> None:
        self.waiting.pop(0).set_result(None)


class Office:
    """A desk on a disk of the test's own, in the running stage."""

    def __init__(self, room: int | None = None) -> None:
        self.journal = MemoryJournal(RUN, room=room)
        self.record = MemoryRecord()
        self.disk = Disk(self.journal, self.record)
        self.clock = VirtualClock(START)
        self.desk = Desk(Book(RUN), self.disk, self.clock)
        self.published: list[int] = []
        self.desk.published.append(lambda rows: self.published.extend(row.seq for row in rows))

    async def open(self) -> None:
        assert isinstance(await self.desk.ask(open_run(competition())), Receipt)
        await self.desk.tell(ServerUp(1, "0"))

    @property
    def rows(self) -> list[Row]:
        return self.journal.read(0, 1_000_000)


def on_loop(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run it on a loop of its own, within a deadline."""

    @functools.wraps(scenario)
    def test(*args: Any, **kwargs: Any) -> None:
        async def within() -> None:
            async with asyncio.timeout(DEADLINE):
                await scenario(*args, **kwargs)

        asyncio.run(within())

    return test


async def until(true: Callable[[], bool]) -> None:
    """Return once it is true; the test's deadline is the limit."""
    while not true():  # noqa: ASYNC110  # what is waited for is anything that the test can see, not one event
        await asyncio.sleep(0)


async def still_waits(task: asyncio.Task[Any]) -> bool:
    done, _ = await asyncio.wait({task}, timeout=SLOWEST)
    return not done


@on_loop
async def test_the_answer_waits_for_the_disk_and_the_next_ruling_doesnt() -> None:
    office = Office()
    await office.open()
    office.disk.slow = True
    first = asyncio.create_task(office.desk.ask(SubmitJob("A", "key-number-1", spec(gpus=8))))
    second = asyncio.create_task(office.desk.ask(SubmitJob("A", "key-number-2", spec(gpus=8))))
    assert await still_waits(first) and await still_waits(second)
    state = office.desk.view().state
    assert state.jobs["A-j1"].attempt and not state.jobs["A-j2"].attempt, (
        "the second was ruled after the first"
    )
    office.disk.acknowledge()
    answer = await first
    assert isinstance(answer, Receipt) and answer.id == "A-j1"
    assert await still_waits(second)
    office.disk.acknowledge()
    assert isinstance(await second, Receipt)


@on_loop
async def test_a_repeated_request_waits_for_the_first_ones_rows() -> None:
    """The client lost its connection and asks again with the same key: an answer given before the rows are durable
    would be lost by a kill."""
    office = Office()
    await office.open()
    office.disk.slow = True
    asked = SubmitJob("A", "key-number-1", spec())
    first = asyncio.create_task(office.desk.ask(asked))
    await asyncio.sleep(0)
    again = asyncio.create_task(office.desk.ask(asked))
    assert await still_waits(again)
    first.cancel()
    office.disk.acknowledge()
    answer = await again
    assert isinstance(answer, Receipt) and answer.repeated and answer.id == "A-j1"
    assert sum(isinstance(event, JobSubmitted) for event in events_of(office.rows)) == 1


@on_loop
async def test_a_client_that_hangs_up_takes_nothing_back() -> None:
    office = Office()
    await office.open()
    office.disk.slow = True
    asked = asyncio.create_task(office.desk.ask(SubmitJob("A", "key-number-1", spec())))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait({asked})
    office.disk.acknowledge()
    await office.desk.durable()
    assert isinstance(events_of(office.rows)[-2], JobSubmitted)
    assert not office.desk.failed.done()
    assert office.published == [row.seq for row in office.rows]


@on_loop
async def test_bodies_are_durable_before_the_rows_that_name_them() -> None:
    """The record goes first, in the same commit; so a crash leaves a body without a row, never a row without its body."""
    told: list[str] = []

    class Book_(MemoryJournal):
        def append(self, rows: Sequence[Row]) -> None:
            told.extend(row.kind for row in rows)
            super().append(rows)

    class Shelf(MemoryRecord):
        def put(self, data: bytes | Path) -> Digest:
            told.append("body")
            return super().put(data)

    record = Shelf()
    desk = Desk(Book(RUN), Writer(Book_(RUN), record), VirtualClock(START))
    await desk.ask(open_run(competition()))
    await desk.tell(ServerUp(1, "0"))
    await desk.durable()
    told.clear()
    digest = desk.keep(b"#!/bin/sh\n")
    await desk.ask(SubmitJob("A", None, spec()))
    assert told[:2] == ["body", "JobSubmitted"]
    assert record.open(digest) == b"#!/bin/sh\n"


@on_loop
async def test_steps_go_with_the_next_rows() -> None:
    office = Office()
    await office.open()
    step = StepRow("A", 1, "A-c1", "user", Digest("sha256:0"), Moment(START))
    office.desk.keep_steps([step])
    assert office.record.steps("A") == []
    await office.desk.ask(Pause("organiser:x", None, ""))
    assert office.record.steps("A") == [step]


@on_loop
async def test_rows_are_published_in_order_once_they_are_durable() -> None:
    office = Office()
    await office.open()
    await until(lambda: len(office.published) == len(office.rows))
    before = list(office.published)
    assert before == [row.seq for row in office.rows]
    office.disk.slow = True
    tasks = [asyncio.create_task(office.desk.ask(SubmitJob("A", None, spec()))) for _ in range(5)]
    await asyncio.sleep(SLOWEST)  # time enough for what must not happen
    assert office.published == before
    while office.disk.waiting:
        office.disk.acknowledge()
    await asyncio.gather(*tasks)
    await until(lambda: len(office.published) == len(office.rows))
    assert office.published == [row.seq for row in office.rows] == list(range(1, len(office.rows) + 1))


@on_loop
async def test_after_a_failed_commit_nothing_more_is_ruled() -> None:
    """A failed commit is fatal: waiters get an error, nothing more is ruled, and what is folded is not what is on disk."""
    office = Office(room=8)
    await office.open()
    assert len(office.rows) == 7
    tasks = [asyncio.create_task(office.desk.ask(SubmitJob("A", None, spec()))) for _ in range(3)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Broken, Broken, Broken]
    assert str(answers[0]) == "the journal has stopped: no room for row 9"
    await asyncio.wait_for(office.desk.failed, DEADLINE)
    before = office.desk.book.seq
    for ask in (
        office.desk.ask(SubmitJob("A", None, spec())), office.desk.ask(Finish("A", None)), office.desk.tell(Tick()),
        office.desk.tell(ServerUp(2, "0")),
    ):  # fmt: skip
        with pytest.raises(Broken) as told:
            await ask
        assert str(told.value) == "the journal can't be written; nothing more is ruled"
        assert not told.value.retry
    assert office.desk.book.seq == before
    assert len(office.rows) == 7 == len(office.published)
    with pytest.raises(Broken):
        await office.desk.durable()


@on_loop
async def test_a_fact_told_to_a_failing_disk_is_heard_of() -> None:
    """`tell` doesn't wait for the disk; the failure shows in `failed`, and no error is left unheard."""
    office = Office(room=7)
    await office.open()
    await office.desk.tell(ServerUp(2, "0"))
    await asyncio.wait_for(office.desk.failed, DEADLINE)


@on_loop
async def test_refusals_are_answered_and_counted() -> None:
    office = Office()
    await office.open()
    for _ in range(3):
        answer = await office.desk.ask(SubmitJob("A", None, spec(gpus=9)))
        assert isinstance(answer, Refusal) and answer.code == "gpus_out_of_range"
    assert [(one.corner, one.code, one.count) for one in office.desk.repeats()] == [
        ("A", "gpus_out_of_range", 2)
    ]
    assert office.desk.repeats() == []


@on_loop
async def test_waiting_for_news() -> None:
    office = Office()
    await office.open()

    def paused() -> bool:
        return office.desk.view().state.clock.paused

    waiting = asyncio.create_task(office.desk.until(paused, DEADLINE))
    assert await still_waits(waiting)
    await office.desk.ask(SubmitJob("A", None, spec()))
    assert await still_waits(waiting)
    await office.desk.ask(Pause("organiser:x", None, ""))
    assert await waiting
    assert await office.desk.until(paused, 0.0)
    assert not await office.desk.until(lambda: False, 0.0)


@on_loop
async def test_the_reconcilers_rest_ends_when_anything_was_ruled_or_at_its_moment() -> None:
    office = Office()
    await office.open()
    await office.desk.changed(None)  # what was ruled before
    rest = asyncio.create_task(office.desk.changed(None))
    assert await still_waits(rest)
    await office.desk.ask(Pause("organiser:x", None, ""))
    await rest
    rest = asyncio.create_task(office.desk.changed(None))
    assert await still_waits(rest)
    office.desk.wake()
    await rest
    await office.desk.changed(Moment(START - HOUR))


@on_loop
async def test_a_real_writer_and_a_real_clock() -> None:
    """Many at once through the journal's own thread: each answered once, rows without a gap."""
    journal, record = MemoryJournal(RUN), MemoryRecord()
    writer = Writer(journal, record)
    clock = RunClock()
    desk = Desk(Book(RUN), writer, clock)
    await desk.ask(open_run(competition(queued=300), clock.now()))
    await desk.tell(ServerUp(1, "0"))
    answers = await asyncio.gather(*(desk.ask(SubmitJob("A", None, spec())) for _ in range(200)))
    ids = [answer.id for answer in answers if isinstance(answer, Receipt)]
    assert ids == [f"A-j{number}" for number in range(1, 201)]
    rows = journal.read(0, 1_000_000)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    await asyncio.to_thread(writer.close)
