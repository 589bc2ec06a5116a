"""The live stream: nothing lost, nothing twice, nothing kept for a client (F48, F50)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.building import digest
from tests.web.pages.scene import Scene

from palestra.events.codec import Row
from palestra.journal.sqlite import SqliteJournal
from palestra.referee.requests import SealCheckpoint
from palestra.rules.units import Bytes
from palestra.runtime.folder import RunFolder
from palestra.web.pages.ring import Ring
from palestra.web.pages.source import FolderRun


class Told:
    """A run on disk to which a test adds public events, one row each."""

    def __init__(self, path: Path) -> None:
        self.scene = Scene("started")
        self.folder: RunFolder = self.scene.write(path)
        self.source = FolderRun(self.folder)
        self.written = len(self.scene.run.rows)

    def happen(self, times: int) -> None:
        """So many checkpoints are sealed."""
        run = self.scene.run
        for n in range(times):
            run.grant(SealCheckpoint("A", None, digest(f"w{len(run.rows)}"), f"out/{n}", Bytes(1), 1, None))
        rows: list[Row] = run.rows[self.written :]
        assert len(rows) == times
        journal = SqliteJournal(self.folder.path, run.book.run)
        journal.append(rows)
        journal.close()
        self.written = len(run.rows)
        self.source.look()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "run")


async def hear(stream: AsyncIterator[bytes], upto: int) -> list[tuple[int, str]]:
    """(id, event) of what comes, to a given id."""
    heard: list[tuple[int, str]] = []
    async with asyncio.timeout(30):
        async for chunk in stream:
            for block in chunk.decode().split("\n\n"):
                fields = dict(
                    one.split(": ", 1) for one in block.splitlines() if one and not one.startswith(":")
                )
                if "id" in fields:
                    assert json.loads(fields["data"])["seq"] == int(fields["id"])
                    heard.append((int(fields["id"]), fields.get("event", "message")))
            if heard and heard[-1][0] >= upto:
                return heard
    raise AssertionError(heard)


def test_a_client_that_comes_back_gets_exactly_what_it_missed(told: Told) -> None:
    """F48: dropped after event 120, 35 events meanwhile, back: 121 to 155, no doubles, from the ring or from the journal."""

    async def play(held: int) -> list[tuple[int, str]]:
        ring = Ring(told.source, held=held)
        await ring.fill()
        return await hear(ring.stream(120), 155)

    told.happen(155 - told.written)
    for held in (512, 20):
        assert asyncio.run(play(held)) == [(n, "message") for n in range(121, 156)]


def test_one_stream_lives_through_a_drop(told: Told) -> None:
    """F48, while it happens."""

    async def play() -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        ring = Ring(told.source, held=200)
        await ring.fill()
        start = told.written
        first = asyncio.create_task(hear(ring.stream(start), 120))
        await asyncio.sleep(0)
        told.happen(120 - start)
        before = await first
        told.happen(35)
        return before, await hear(ring.stream(before[-1][0]), 155)

    start = told.written
    before, after = asyncio.run(play())
    assert [n for n, _ in before] == list(range(start + 1, 121))
    assert after == [(n, "message") for n in range(121, 156)]


@pytest.mark.parametrize("seen", [1, -1, 1_000_000])
def test_a_very_old_or_foreign_id_gets_one_resync(told: Told, seen: int) -> None:
    """F48."""

    async def play() -> list[tuple[int, str]]:
        ring = Ring(told.source, held=20, reach=30)
        await ring.fill()
        stream = ring.stream(seen)
        heard = await hear(stream, 155)
        told.happen(1)
        return heard + await hear(stream, 156)

    told.happen(155 - told.written)
    assert asyncio.run(play()) == [(155, "resync"), (156, "message")]


def test_a_slow_reader_gets_a_snapshot_and_holds_nothing(told: Told) -> None:
    """F50: the ring goes round while one reads nothing; others are unaffected."""

    async def play() -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        ring = Ring(told.source, held=16)
        await ring.fill()
        slow, quick = ring.stream(told.written), ring.stream(told.written)
        told.happen(1)
        assert await hear(slow, told.written) == [(told.written, "message")]
        told.happen(9)
        heard = await hear(quick, told.written)
        told.happen(40)
        assert len(ring._frames) == 16
        return await hear(slow, told.written), heard

    start = told.written
    slow, quick = asyncio.run(play())
    assert slow == [(start + 50, "resync")]
    assert [n for n, _ in quick] == list(range(start + 1, start + 11))


def test_closing_ends_every_stream_and_counts_them_out(told: Told) -> None:
    async def play() -> int:
        ring = Ring(told.source)
        await ring.fill()

        async def listen() -> int:
            return len([chunk async for chunk in ring.stream(None)])

        listeners = [asyncio.create_task(listen()) for _ in range(100)]
        async with asyncio.timeout(30):
            while ring.clients < 100:  # noqa: ASYNC110  streams begin by themselves
                await asyncio.sleep(0)
            ring.close()
            await asyncio.gather(*listeners)
        return ring.clients

    assert asyncio.run(play()) == 0
