"""One served run, wired: journal, desk, reconciler and the rooms at the edges. Doors are opened by whoever starts it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from palestra import __version__
from palestra.cluster.homes import FolderHomes
from palestra.cluster.local import LocalExecutor
from palestra.cluster.processes import LocalProcesses
from palestra.events.codec import Row
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.writer import Writer
from palestra.referee.observations import ServerDown, ServerUp, TailSetAside
from palestra.rules.competition import Competition
from palestra.rules.errors import Broken, Refusal
from palestra.rules.units import SECOND, Digest
from palestra.runtime import opening
from palestra.runtime.book import Book
from palestra.runtime.clock import RunClock
from palestra.runtime.compare import SCOREBOARD
from palestra.runtime.desk import Desk
from palestra.runtime.examiner import ExamProgram
from palestra.runtime.folder import RunFolder
from palestra.runtime.hands import Hands, Surroundings
from palestra.runtime.house import House
from palestra.runtime.reconciler import Reconciler
from palestra.runtime.seats import Seats
from palestra.vault.folder import FolderVault

STOP_WITHIN = 30 * SECOND
"""How long a stop waits for agents and jobs to go."""


class Bodies:
    """Bodies by digest: those just kept, and those on disk, read in the journal's own thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def put(self, data: bytes | Path) -> Digest:
        raise Broken("bodies are kept through the desk", retry=False)

    def open(self, digest: Digest) -> bytes:
        """The body; `KeyError` when unknown or erased."""
        return self._writer.blob(digest).result()

    def erase(self, digest: Digest) -> None:
        """Erase it."""
        self._writer.erase(digest).result()


class Server:
    """The served run. Made by `start`; `stop` ends it in good order."""

    desk: Desk
    reconciler: Reconciler
    executor: LocalExecutor
    exam: ExamProgram
    writer: Writer
    seats: Seats

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.stop_asked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set to `stop` or `leave-running` by whoever wants the server gone."""
        self.corner_opened: Callable[[str], Awaitable[None]] = _no_door
        """Told of each corner that is taken while the server runs; whoever opens doors sets it."""
        self._loop: asyncio.Task[None] | None = None

    @property
    def rules(self) -> Competition:
        """The run's own rules, as they were opened."""
        return self.desk.view().state.rules

    async def start(
        self, source: opening.Source | None, watch: Callable[[tuple[Row, ...]], None] | None = None
    ) -> None:
        """Lock, fold, settle what a dead server left. `source` opens a new run; `watch` is told rows as they are durable."""
        new = None if self.folder.exists else source
        if new is not None:
            opening.clear_folder(self.folder)
            run = opening.new_id(new.rules)
        else:
            run = self.folder.read().run
        self._journal = SqliteJournal(self.folder.path, run)
        self._record = SqliteRecord(self.folder.path)
        book = Book(run)
        while rows := self._journal.read(book.seq):
            book.load(rows)
        self.writer = Writer(self._journal, self._record)
        self.clock = RunClock(book.state.at)
        self.desk = Desk(book, self.writer, self.clock)
        if watch is not None:
            self.desk.published.append(watch)
        if new is not None:
            await self._open(run, new)
        await self._take_over(source)
        self._wire()

    async def _open(self, run: str, source: opening.Source) -> None:
        """Under the journal's lock, so that no second server lays out the same folder."""
        request = opening.open_folder(self.folder, source, run, self.clock.now(), "none")
        for name in ("competition.toml", "terms.md", "exam.py"):
            self.desk.keep((self.folder.competition / name).read_bytes())
        answer = await self.desk.ask(request)
        if isinstance(answer, Refusal):
            raise answer
        opening.finish_opening(self.folder, source, run)

    async def _take_over(self, source: opening.Source | None) -> None:
        """Our presence on the record first; open calls of a dead server are settled with it."""
        file = self.folder.read()
        opened = self.desk.view().state.opened
        assert opened is not None
        opening.refuse_edited(self.folder, file, opened.competition)
        if source is not None:
            opening.refuse_other(self.folder, file, source, opened.competition)
        for tail in self._journal.tails:
            await self.desk.tell(TailSetAside(tail.size, tail.kept_as))
        await self.desk.tell(ServerUp(os.getpid(), __version__))
        await self.desk.durable()

    def _wire(self) -> None:
        folder, rules = self.folder, self.rules
        file = folder.read()
        run, base = file.run, Path(file.base)
        homes = FolderHomes(folder.homes)
        self.seats = Seats(folder, homes, Path(file.source).parent, rules.data)
        state = self.desk.view().state
        for corner in (*state.corners, *state.announced):
            self.seats.take(corner)
        build_arena(folder.arena)
        sessions = LocalProcesses(folder.spool / "sessions", f"{run}/s/")
        attempts = LocalProcesses(folder.spool / "attempts", f"{run}/a/")
        self.executor = LocalExecutor(
            attempts, rules.nodes, homes, notes=folder.spool / "notes", scratch=folder.spool / "scratch"
        )
        vault = FolderVault(folder.vault, base, homes=folder.homes)
        self.exam = ExamProgram(folder.competition / "exam.py", rules.exam.args)
        house = House(folder.spool / "house", rules.serving, base, self.exam, run)
        around = Surroundings(
            spool=folder.spool,
            homes=folder.homes,
            base=base,
            reports=folder.reports,
            tokens=self.seats.tokens,
            sockets=self.seats.sockets,
            arena=folder.arena,
            python=sys.executable,
            exam_seed=folder.read_secret(opening.SEED).decode(),
            environment=(rules.jobs.environment or str(Path(sys.executable).parent),),
        )
        hands = Hands(
            self.executor, sessions, vault, Bodies(self.writer), self.exam, house, around, self.desk.keep
        )
        self.reconciler = Reconciler(self.desk, self.executor, sessions, vault, hands, self.clock)

    def begin(self) -> None:
        """Let the reconciler run; called when the doors are open."""
        self._loop = asyncio.create_task(self.reconciler.run())

    async def serve(self, *, until_end: bool) -> str:
        """Until asked to stop, or the results are in; tells which: `stop`, `leave-running`, `end`."""
        assert self._loop is not None
        ended = asyncio.create_task(self._until_results(until_end))
        waiting: set[asyncio.Future[Any]] = {self.stop_asked, self._loop, ended, self.desk.failed}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if self.desk.failed in done:
            raise Broken(
                "the journal can't be written any more; free the disk, then run again: it goes on from the last row",
                retry=False,
            )
        if self._loop in done:
            self._loop.result()
        return "end" if ended in done else self.stop_asked.result()

    async def _until_results(self, wanted: bool) -> None:
        """Return when the results are in, if that is wanted; else never."""
        while not await self.desk.until(
            lambda: wanted and SCOREBOARD in self.desk.view().state.reports, 3600
        ):
            pass

    async def stop(self, how: str) -> None:
        """`stop`: pause, let agents and jobs go, within the time allowed. Everything else just leaves."""
        if how == "stop":
            await self.desk.tell(ServerDown(os.getpid(), "stop"))
            await self.desk.until(self._nothing_runs, STOP_WITHIN / SECOND)
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        self.exam.stop()  # a thread that waits for it would keep this process from leaving
        await self.desk.tell(ServerDown(os.getpid(), "gone"))
        await self.desk.durable()
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        self.writer.close()
        self._record.close()
        self._journal.close()

    def _nothing_runs(self) -> bool:
        state = self.desk.view().state
        return not state.attempts and not state.sessions


async def _no_door(corner: str) -> None:
    """Nobody opens doors."""


def build_arena(path: Path) -> None:
    """The client that agents call, built anew so that it fits this release."""
    import subprocess

    path.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "palestra.client.build", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Broken(f"the arena client can't be built: {done.stderr.strip().splitlines()[-1:]}", retry=False)
