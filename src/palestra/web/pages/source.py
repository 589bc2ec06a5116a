"""Where pages get a run from: a server that is up, or a folder on disk; views, rows, steps, bodies and logs out. Only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from palestra.cluster.spool import Spool
from palestra.events.codec import Row, read_entry
from palestra.events.masking import Secret
from palestra.journal.record import RecordReader
from palestra.journal.tail import Tail
from palestra.ports import StepRow
from palestra.rules.units import Digest, Moment
from palestra.runtime.folder import RunFolder
from palestra.runtime.server import Server
from palestra.runtime.withheld import withheld
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog, View

Stream = Literal["out", "err"]
STREAMS: tuple[Stream, ...] = ("out", "err")
Told = Callable[[tuple[Row, ...]], None]


class Source(Protocol):
    """One run as pages read it."""

    live: bool
    """Whether a server writes it just now."""

    def view(self) -> View:
        """What is so now; read at once, never kept across an await."""
        ...

    def secrets(self) -> tuple[Secret, ...]:
        """What no public byte may hold."""
        ...

    def follow(self, told: Told) -> None:
        """Have rows told as they become durable, in order."""
        ...

    def used(self, attempt: str) -> int | None:
        """The most memory that an attempt was seen to use so far; None where it isn't measured."""
        ...

    async def rows(self, after: int, limit: int) -> list[Row]:
        """Durable rows with seq > after."""
        ...

    async def steps(self, corner: str, after: int, limit: int) -> list[StepRow]:
        """Steps of a corner with n > after."""
        ...

    async def body(self, digest: Digest) -> bytes:
        """A body; `KeyError` when unknown or erased."""
        ...

    async def log(self, attempt: str, stream: Stream, offset: int, limit: int) -> bytes:
        """Output of an attempt; a negative offset counts from the end."""
        ...


class ServedRun:
    """A run whose server is this process."""

    live = True

    def __init__(self, server: Server, more_secrets: Callable[[], Iterable[Secret]] = tuple) -> None:
        self._server = server
        self._more = more_secrets
        self._seated = -1
        self._kept: tuple[Secret, ...] = ()

    def view(self) -> View:
        return self._server.desk.view()

    def secrets(self) -> tuple[Secret, ...]:
        state = self.view().state
        seated = len(state.corners) + len(state.announced)
        if seated != self._seated:  # a late joiner's name is sealed before it is announced
            self._seated, self._kept = seated, withheld(self._server.folder, state.rules)
        tokens = (Secret(token) for token in self._server.seats.tokens.values())
        return (*tokens, *self._kept, *self._more())

    def follow(self, told: Told) -> None:
        self._server.desk.published.append(told)

    def used(self, attempt: str) -> int | None:
        return peak_memory(self._server.folder, attempt)

    async def rows(self, after: int, limit: int) -> list[Row]:
        return await asyncio.wrap_future(self._server.writer.read(after, limit))

    async def steps(self, corner: str, after: int, limit: int) -> list[StepRow]:
        return await asyncio.wrap_future(self._server.writer.steps(corner, after, limit))

    async def body(self, digest: Digest) -> bytes:
        return await asyncio.wrap_future(self._server.writer.blob(digest))

    async def log(self, attempt: str, stream: Stream, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self._server.executor.log, attempt, stream, offset, limit)


class FolderRun:
    """A run as it lies on disk, whoever wrote it. `look` takes in what was written since."""

    live = False

    def __init__(self, folder: RunFolder, at: Moment | None = None) -> None:
        """`at`: the instant to show; the last row's where none is given."""
        self._folder = folder
        self._state, self._catalog = State(), Catalog()
        self._tail = Tail(folder.path)
        self._told: list[Told] = []
        self._at = at
        self.look()
        self._record = RecordReader(folder.path)
        self._secrets = withheld(folder, self._state.rules)

    def look(self) -> None:
        """Fold what is new, and tell it on."""
        rows = tuple(self._tail.rows())
        for row in rows:
            entry = read_entry(row)
            fold.fold(self._state, entry)
            catalog.fold(self._catalog, entry)
        for told in self._told if rows else ():
            told(rows)

    def view(self) -> View:
        return View(self._state, self._catalog, max(self._at or Moment(0), Moment(self._state.at)))

    def secrets(self) -> tuple[Secret, ...]:
        return self._secrets

    def follow(self, told: Told) -> None:
        self._told.append(told)

    def used(self, attempt: str) -> int | None:
        return peak_memory(self._folder, attempt)

    async def rows(self, after: int, limit: int) -> list[Row]:
        tail = Tail(self._folder.path, after, page=limit)
        try:
            return [row for row, _ in zip(tail.rows(), range(limit), strict=False)]
        finally:
            tail.close()

    async def steps(self, corner: str, after: int, limit: int) -> list[StepRow]:
        return self._record.steps(corner, after, limit)

    async def body(self, digest: Digest) -> bytes:
        return self._record.open(digest)

    async def log(self, attempt: str, stream: Stream, offset: int, limit: int) -> bytes:
        spool = Spool(self._folder.spool / "attempts" / attempt)
        return await asyncio.to_thread(spool.log, stream, offset, limit)


def peak_memory(folder: RunFolder, attempt: str) -> int | None:
    """What the local launcher noted of an attempt."""
    return Spool(folder.spool / "attempts" / attempt).peak()
