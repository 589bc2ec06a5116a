"""The record beside the journal: bodies and trajectory steps in, kept by digest and by number; bodies and steps out.

It is committed before the journal rows that name what it holds. So a crash can leave here what no row names, never the
reverse: a body without a row does no harm, and a step without a row is overwritten when its number is given out again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from palestra.journal.bodies import LARGEST_INLINE, BodyFiles, digest_of, pack, size_of, unpack
from palestra.journal.database import Layout, open_for_reading, open_for_writing, saying, transaction
from palestra.ports import Blobs, StepRow
from palestra.rules.errors import Broken
from palestra.rules.units import Digest

FILE_NAME = "record.db"
LAYOUT = Layout(
    what="record",
    mark=0x50414C52,  # "PALR"
    version=1,
    tables=(
        # No bytes: the body is a file under blobs/. Empty bytes: it was erased, and the digest stays as a tombstone.
        "CREATE TABLE blobs (digest TEXT PRIMARY KEY, zstd BLOB) STRICT",
        "CREATE TABLE steps (corner TEXT NOT NULL, n INTEGER NOT NULL, call TEXT NOT NULL, role TEXT NOT NULL,"
        " digest TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (corner, n)) STRICT, WITHOUT ROWID",
    ),
)
_STEP = "INSERT OR REPLACE INTO steps (corner, n, call, role, digest, at) VALUES (?, ?, ?, ?, ?, ?)"
_STEPS = "SELECT corner, n, call, role, digest, at FROM steps WHERE corner = ? AND n > ? ORDER BY n LIMIT ?"
_ERASED = b""


class Record(Blobs, Protocol):
    """Bodies and steps. Sync; called in the journal's own thread."""

    def keep(self, blobs: Iterable[bytes | Path], steps: Iterable[StepRow]) -> None:
        """All durable, or `Broken` and none. Known bodies are kept once; an erased one stays erased."""
        ...

    def erased(self, digest: Digest) -> bool:
        """Whether this body was here and was erased."""
        ...

    def steps(self, corner: str, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Steps of a corner with n > after, in order, at most limit."""
        ...


class RecordReader:
    """The record of a run folder, read-only; works whether or not a server is writing it."""

    def __init__(self, folder: Path) -> None:
        """`Broken` when there is no record in this run folder."""
        self._path = folder / FILE_NAME
        self._files = BodyFiles(folder / "blobs")
        self._connection = self._connect()

    def open(self, digest: Digest) -> bytes:
        """The body; `KeyError` when unknown or erased, `Corrupt` when damaged."""
        found = self._find(digest)
        if found is None or found[0] == _ERASED:
            raise KeyError(digest)
        return self._files.open(digest) if found[0] is None else unpack(found[0], digest)

    def erased(self, digest: Digest) -> bool:
        """Whether this body was here and was erased."""
        return self._find(digest) == (_ERASED,)

    def steps(self, corner: str, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Steps of a corner with n > after, in order, at most limit."""
        with saying(self._path):
            found = self._connection.execute(_STEPS, (corner, after, limit)).fetchall()
        return [StepRow(*values) for values in found]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = open_for_reading(self._path, LAYOUT)
        if connection is None:
            raise Broken(f"{self._path}: there is no record yet", retry=False)
        return connection

    def _find(self, digest: Digest) -> tuple[bytes | None] | None:
        with saying(self._path):
            found: tuple[bytes | None] | None = self._connection.execute(
                "SELECT zstd FROM blobs WHERE digest = ?", (digest,)
            ).fetchone()
        return found


class SqliteRecord(RecordReader):
    """The durable `Record`. Open the journal first: its lock covers the whole run folder."""

    def put(self, data: bytes | Path) -> Digest:
        """Keep one body, durable on return."""
        self.keep([data], [])
        return digest_of(data)

    def keep(self, blobs: Iterable[bytes | Path], steps: Iterable[StepRow]) -> None:
        """All durable, or `Broken` and none. Known bodies are kept once; an erased one stays erased."""
        rows = [
            (digest, self._pack(body, digest))
            for body in blobs
            if self._find(digest := digest_of(body)) is None
        ]
        with saying(self._path), transaction(self._connection):
            self._connection.executemany("INSERT OR IGNORE INTO blobs (digest, zstd) VALUES (?, ?)", rows)
            self._connection.executemany(_STEP, map(msgspec.structs.astuple, steps))

    def erase(self, digest: Digest) -> None:
        """Remove a body for good and leave a tombstone; `KeyError` when it was never here.

        On return its bytes are in neither the database nor its write-ahead file. `Broken` when a reader was in the way of
        that: the body can no longer be opened, and erasing it again finishes the work.
        """
        with saying(self._path):
            with transaction(self._connection):
                done = self._connection.execute(
                    "UPDATE blobs SET zstd = ? WHERE digest = ?", (_ERASED, digest)
                )
            if not done.rowcount:
                raise KeyError(digest)
            self._files.drop(digest)
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Broken(
                f"{self._path}: a reader is holding on to old pages of blob {digest}: erase it again"
            )

    def _connect(self) -> sqlite3.Connection:
        return open_for_writing(self._path, LAYOUT)

    def _pack(self, body: bytes | Path, digest: Digest) -> bytes | None:
        if size_of(body) <= LARGEST_INLINE:
            return pack(body)
        self._files.keep(body, digest)
        return None
