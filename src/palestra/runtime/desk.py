"""The one writer of a served run: requests in, durable rows and answers out. Runs on the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from palestra.events.codec import Row
from palestra.ports import Clock, StepRow
from palestra.referee.observations import Observation, RefusalsRepeated
from palestra.referee.requests import Receipt, Request
from palestra.rules.errors import Broken, Refusal
from palestra.rules.units import Digest, Moment
from palestra.runtime.book import Book
from palestra.state.catalog import View


class RowWriter(Protocol):
    """The journal's thread, as the desk sees it."""

    def submit(
        self, rows: Sequence[Row], blobs: Sequence[bytes] = (), steps: Sequence[StepRow] = ()
    ) -> Future[None]: ...


class Desk:
    """Rules at once, so that the next ruling sees it; answers only once the rows are durable."""

    def __init__(self, book: Book, writer: RowWriter, clock: Clock) -> None:
        self.book = book
        self.clock = clock
        self._writer = writer
        self._gate = threading.Lock()
        self._blobs: list[bytes] = []
        self._steps: list[StepRow] = []
        self._last: Future[None] | None = None
        self._durable = book.seq
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Done when a commit failed: nothing more may be ruled, the process must end."""
        self.published: list[Callable[[tuple[Row, ...]], None]] = []
        """Called on the loop with rows that became durable, in order."""

    def keep(self, data: bytes) -> Digest:
        """Keep a body; it is committed before the rows of the next ask or tell, which may name it. Safe in any thread."""
        with self._gate:
            self._blobs.append(data)
        return Digest("sha256:" + hashlib.sha256(data).hexdigest())

    def keep_steps(self, steps: Sequence[StepRow]) -> None:
        """Keep numbered steps, committed as bodies are."""
        with self._gate:
            self._steps.extend(steps)

    async def ask(self, request: Request) -> Receipt | Refusal:
        """Rule, make durable, then answer. `Broken` when the journal can't be written."""
        self._check()
        outcome = self.book.ask(request, self.clock.now())
        await asyncio.shield(self._commit(outcome.rows))
        if not outcome.rows:  # said before, and its rows may still be on their way to the disk
            await self.durable()
        return outcome.answer

    async def tell(self, observation: Observation) -> None:
        """Fold a fact in; durable before anything that follows from it is done."""
        self._check()
        self._commit(self.book.tell(observation, self.clock.now()))

    async def note(self, corner: str, refusal: Refusal) -> None:
        """Put a no on the record that the referee wasn't asked for."""
        self._check()
        self._commit(self.book.note(corner, refusal, self.clock.now()))

    def view(self) -> View:
        """What is so now."""
        return self.book.view(self.clock.now())

    def repeats(self) -> list[RefusalsRepeated]:
        """Refusals repeated since last asked."""
        return self.book.repeats()

    async def durable(self) -> None:
        """Return when everything folded so far is on disk."""
        if self._last is not None:
            await asyncio.wrap_future(self._last)
        self._check()

    async def changed(self, until: Moment | None) -> None:
        """Return when anything was ruled since the last call, or at `until`."""
        timeout = None if until is None else max(0.0, (until - self.clock.now()) / 1e6)
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def wake(self) -> None:
        """Let `changed` return: something outside the book moved."""
        self._changed.set()

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done()` is true of the durable state, or for so long; tells which."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    await self._woken()
                return True
        except TimeoutError:
            return False

    async def _woken(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _check(self) -> None:
        if self.failed.done():
            raise Broken("the journal can't be written; nothing more is ruled", retry=False)

    def _commit(self, rows: tuple[Row, ...]) -> asyncio.Future[None]:
        with self._gate:
            blobs, self._blobs = self._blobs, []
            steps, self._steps = self._steps, []
        if not rows and not blobs and not steps:
            done = self._loop.create_future()
            done.set_result(None)
            return done
        self._changed.set()
        future = self._writer.submit(rows, blobs, steps)
        self._last = future
        waiter = asyncio.wrap_future(future)
        waiter.add_done_callback(lambda done: self._committed(done, rows))
        return waiter

    def _committed(self, done: asyncio.Future[None], rows: tuple[Row, ...]) -> None:
        error = done.exception()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if error is None:
            for publish in self.published:
                publish(rows)
        elif not self.failed.done():
            self.failed.set_result(None)
