"""The journal as one SQLite file in the run folder: rows in, durable when `append` returns; the same rows out.

One table with exactly the columns of a row. The run folder's lock is held for as long as the journal is open, and each
append checks once more that the stored head is the one it knows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from palestra.events.codec import Row, read_entry
from palestra.events.runs import TailRepaired
from palestra.journal.chain import Link, follow, start_chain
from palestra.journal.database import Layout, open_for_writing, saying, transaction
from palestra.journal.filesystem import refuse_unfit
from palestra.journal.lock import Lock
from palestra.journal.repair import TailFound, list_tails, set_tail_aside
from palestra.rules.errors import Broken, Corrupt, PalestraError

FILE_NAME = "journal.db"
LAYOUT = Layout(
    what="journal",
    mark=0x50414C4A,  # "PALJ"
    version=1,
    tables=(
        "CREATE TABLE journal (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,"
        " version INTEGER NOT NULL, subject TEXT NOT NULL, actor TEXT NOT NULL, cause INTEGER, request TEXT,"
        " body BLOB NOT NULL, digest BLOB NOT NULL) STRICT",
    ),
)
_INSERT = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_READ = "SELECT * FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"
_LAST = "SELECT * FROM journal ORDER BY seq DESC LIMIT 1"


class SqliteJournal:
    """The durable `Journal`. Use it from one thread at a time."""

    tails: tuple[TailFound, ...]
    """Interrupted writes that were set aside, now or earlier, and aren't in the journal yet: journal them."""

    def __init__(self, folder: Path, run: str, *, wait: bool = False) -> None:
        """Open or make the journal in this run folder.

        `Broken` on an unfit file system, without the lock (unless told to `wait` for it), or when the journal is a newer
        release's; `Corrupt` when it is damaged or another run's.
        """
        if not folder.is_dir():
            raise Broken(f"{folder}: no such run folder", retry=False)
        self._path = folder / FILE_NAME
        self._stopped = False
        with ExitStack() as undo:
            refuse_unfit(folder)
            undo.callback(Lock(folder, wait=wait).close)
            set_tail_aside(folder / f"{FILE_NAME}-wal")
            self._connection = open_for_writing(self._path, LAYOUT)
            undo.callback(self._connection.close)
            self._link = self._find_end(run)
            self.tails = self._unrecorded(folder)
            self._undo = undo.pop_all()

    def append(self, rows: Sequence[Row]) -> None:
        """All rows durable, or none and an error. After `Broken` nothing more is taken: open the journal anew."""
        if self._stopped:
            raise Broken(f"{self._path}: nothing is written after a failed commit; open it anew", retry=False)
        link = self._link
        for row in rows:
            link = follow(link, row)
        if link is self._link:
            return
        try:
            with saying(self._path), transaction(self._connection):
                self._refuse_other_writer()
                self._connection.executemany(_INSERT, map(msgspec.structs.astuple, rows))
        except PalestraError:
            self._stopped = True
            raise
        self._link = link

    def read(self, after: int = 0, limit: int = 1000) -> list[Row]:
        """Rows with seq > after, in order, at most limit."""
        with saying(self._path):
            return read_page(self._connection, after, limit)

    def head(self) -> tuple[int, bytes]:
        """(seq, digest) of the last row; (0, the first digest) when empty."""
        return self._link.seq, self._link.digest

    def close(self) -> None:
        """Close the file, then let go of the run folder."""
        self._undo.close()

    def _find_end(self, run: str) -> Link:
        start = start_chain(run)
        for first in self.read(0, 1):
            try:
                follow(start, first)
            except Corrupt as error:
                raise Corrupt(f"{self._path}: not the journal of run {run!r}, or altered: {error}") from error
        with saying(self._path):
            last = [Row(*values) for values in self._connection.execute(_LAST)]
        return Link(last[0].seq, last[0].digest, last[0].at) if last else start

    def _refuse_other_writer(self) -> None:
        """The lock file may have been removed under us; the stored head can't lie."""
        stored = self._connection.execute(_LAST).fetchone()
        seq, digest = (stored[0], stored[-1]) if stored else (0, self._link.digest)
        if (seq, digest) != self.head():
            raise Broken(
                f"{self._path}: ends with another row {seq} than this process wrote (its own is {self._link.seq}):"
                " something else has written to it",
                retry=False,
            )

    def _unrecorded(self, folder: Path) -> tuple[TailFound, ...]:
        found = list_tails(folder)
        if not found:
            return ()
        with saying(self._path):
            rows = self._connection.execute(
                "SELECT * FROM journal WHERE kind = ?", (TailRepaired.__name__,)
            ).fetchall()
        events = [read_entry(Row(*values)).event for values in rows]
        recorded = {event.kept_as for event in events if isinstance(event, TailRepaired)}
        return tuple(tail for tail in found if tail.kept_as not in recorded)


def read_page(connection: sqlite3.Connection, after: int, limit: int) -> list[Row]:
    """One page of rows, fetched whole, so that no read transaction stays open behind it."""
    return [Row(*values) for values in connection.execute(_READ, (after, limit)).fetchall()]
