"""Crashes at any instant, found by search: a disk as a killed server leaves it is opened again, over and over.

A crash takes a copy of the run folder at one of four instants of a commit and goes on with the copy:
before it, in the middle of its bytes, after it but before anyone was told, or with junk written behind it.
"""

import random
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palestra.events.codec import Row
from palestra.events.runs import AlarmRaised, TailRepaired
from palestra.journal.bodies import digest_of
from palestra.journal.chain import check_chain, write_rows
from palestra.journal.record import RecordReader, SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.tail import Tail
from palestra.journal.wal import HEADER, scan
from palestra.journal.writer import Writer
from palestra.rules.errors import Broken
from palestra.rules.units import Digest, Moment

RUN = "pocket"
PATIENCE = 30.0
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None

Instant = Literal["before", "middle", "after", "junk"]
INSTANTS: list[Instant] = ["before", "middle", "after", "junk"]


class Disk:
    """The journal of a server whose disk is slow: its thread stays in `head` until let go, and may be killed then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = SqliteJournal(folder, RUN)
        self.crash: tuple[Instant, int, Path] | None = None
        self.torn = 0
        self.held, self.let_go = threading.Semaphore(0), threading.Semaphore(0)

    def append(self, rows: Sequence[Row]) -> None:
        if self.crash is None:
            self.journal.append(rows)
            return
        instant, seed, image = self.crash
        committed = scan(self.folder / "journal.db-wal").committed
        if instant != "before":
            self.journal.append(rows)
        self._take_image(instant, random.Random(seed), committed, image)
        raise Broken("killed")

    def read(self, after: int = 0, limit: int = 1000) -> list[Row]:
        return self.journal.read(after, limit)

    def head(self) -> tuple[int, bytes]:
        self.held.release()
        assert self.let_go.acquire(timeout=PATIENCE)
        return self.journal.head()

    def _take_image(self, instant: Instant, chance: random.Random, committed: int, image: Path) -> None:
        shutil.copytree(self.folder, image, ignore=shutil.ignore_patterns("*-shm", "lock"))
        wal = image / "journal.db-wal"
        content = wal.read_bytes()
        if instant == "middle":
            cut = chance.randint(committed, scan(wal).committed - 1)
            # A whole header with nothing behind it is what an unused file looks like.
            self.torn = cut - (max(committed, HEADER) if cut >= HEADER else 0)
            wal.write_bytes(content[:cut])
        elif instant == "junk":
            self.torn = chance.randint(1, 4000)
            wal.write_bytes(content + chance.randbytes(self.torn))


class Crashes(RuleBasedStateMachine):
    """F01, F02, F03: acknowledged rows are never lost, seq is 1..n without a gap, the chain holds."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory(dir=MEMORY)
        self.acknowledged = self.crashes = self.repairs = 0
        self.made: dict[int, Row] = {}
        first = Path(self.place.name) / "0"
        first.mkdir()
        self.open(first)

    def open(self, folder: Path) -> None:
        self.disk, self.record = Disk(folder), SqliteRecord(folder)
        self.head = self.disk.journal.head()
        # A commit that was through before the crash is there, though nobody was told; then its rows are the book.
        assert self.head[0] >= self.acknowledged
        self.acknowledged = self.head[0]
        self.made = {seq: row for seq, row in self.made.items() if seq <= self.head[0]}
        self.waiting: list[tuple[int, Future[None]]] = []
        self.writer = Writer(self.disk, self.record)
        self.hold()
        repaired = [TailRepaired(tail.size, tail.kept_as) for tail in self.disk.journal.tails]
        assert len(repaired) <= 1
        if repaired:
            self.send(write_rows(self.head, Moment(0), "house", repaired))
            self.commit()
            self.repairs += 1

    def hold(self) -> None:
        """Keep the journal's thread busy, so that what is submitted from here on waits in its queue."""
        self.writer.head()
        assert self.disk.held.acquire(timeout=PATIENCE)

    def send(self, rows: list[Row], bodies: Sequence[bytes] = ()) -> None:
        self.head = (rows[-1].seq, rows[-1].digest)
        self.made.update({row.seq: row for row in rows})
        self.waiting.append((rows[-1].seq, self.writer.submit(rows, bodies)))

    @rule(count=st.integers(1, 5), size=st.sampled_from([0, 10, 1500]))
    def submit(self, count: int, size: int) -> None:
        body = b"%d" % self.head[0] * 9
        events = [AlarmRaised(digest_of(body), "x" * size) for _ in range(count)]
        self.send(write_rows(self.head, Moment(0), "A", events, request=f"k{self.head[0]}"), [body])

    @precondition(lambda self: self.waiting)
    @rule()
    def commit(self) -> None:
        """The disk is quick for once: all who wait are answered."""
        assert not any(done.done() for _, done in self.waiting)
        self.disk.let_go.release()
        for seq, done in self.waiting:
            assert done.result(PATIENCE) is None
            self.acknowledged = seq
        self.waiting.clear()
        self.hold()

    @precondition(lambda self: self.waiting)
    @rule(instant=st.sampled_from(INSTANTS), seed=st.integers(0, 1 << 30))
    def crash(self, instant: Instant, seed: int) -> None:
        self.crashes += 1
        image = Path(self.place.name) / str(self.crashes)
        self.disk.crash = (instant, seed, image)
        self.disk.let_go.release()
        for _, done in self.waiting:
            assert isinstance(done.exception(PATIENCE), Broken)
        self.shut()
        survived = self.head[0] if instant in ("after", "junk") else self.acknowledged
        torn = self.disk.torn
        self.open(image)
        assert [tail.size for tail in self.disk.journal.tails] == ([torn] if torn else [])
        assert self.acknowledged == survived + bool(torn), (
            "all that was whole, and the row that tells of the repair"
        )

    @rule()
    def stop_and_start(self) -> None:
        """In good order: the queue is drained first."""
        folder = self.disk.folder
        self.drain()
        self.open(folder)

    def drain(self) -> None:
        self.disk.let_go.release()
        self.shut()
        for seq, done in self.waiting:
            assert done.result(0) is None
            self.acknowledged = seq

    def shut(self) -> None:
        self.writer.close()
        self.record.close()
        self.disk.journal.close()

    @invariant()
    def the_book_is_whole(self) -> None:
        if not hasattr(self, "disk"):
            return
        rows = self.follow()
        assert [row.seq for row in rows] == list(range(1, self.acknowledged + 1))
        assert rows == [self.made[row.seq] for row in rows]
        assert [row.kind for row in rows].count("TailRepaired") == self.repairs

    def follow(self) -> list[Row]:
        """As another process does it: the writer's own connection belongs to its thread."""
        with (
            closing(Tail(self.disk.folder, page=7)) as tail,
            closing(RecordReader(self.disk.folder)) as record,
        ):
            rows = list(check_chain(tail.rows(), RUN))
            for row in rows:
                if row.kind == "AlarmRaised":
                    assert digest_of(record.open(Digest(row.subject))) == row.subject
        return rows

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.drain()
            self.place.cleanup()


TestCrashes = Crashes.TestCase
