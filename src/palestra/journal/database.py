"""How this room opens SQLite: a path and a layout in, a connection set for durability out; SQLite's errors become ours.

Never open these files by other means in the process that writes them: closing any descriptor of a file gives up the
process's POSIX locks on it, and with them SQLite's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from palestra.rules.errors import Broken, Corrupt

OLDEST_SQLITE = (3, 37)
"""The first with STRICT tables."""
SETTINGS = ("synchronous=FULL", "fullfsync=1", "secure_delete=ON", "journal_size_limit=16777216")
"""Each commit is on the disk; what is erased is overwritten; a write-ahead file that grew is cut to 16 MiB again."""
PATIENCE = 5.0
"""Seconds to wait while another process holds SQLite's own lock for a moment."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Layout(msgspec.Struct, frozen=True):
    """What a file must hold to be ours. `mark` is SQLite's application id, `version` its user version."""

    what: str
    mark: int
    version: int
    tables: tuple[str, ...]


@contextmanager
def saying(path: Path) -> Iterator[None]:
    """SQLite's errors about this file as one sentence: `Corrupt` for a damaged file, else `Broken`."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise (Corrupt if code in _DAMAGE else Broken)(f"{path}: {error}") from error
    except UnicodeDecodeError as error:  # of a damaged schema even SQLite's complaint may be no text
        raise Corrupt(f"{path}: it holds bytes that are no text where text should be") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, durable on the way out. The write lock is taken first, so that what is read inside stays true."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise


def open_for_writing(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open or make the file. Every commit is synced; one connection at a time, from one thread at a time."""
    with saying(path):
        connection = _connect(path, "rwc")
        try:
            new = _check(connection, path, layout)
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != "wal":
                raise Broken(
                    f"{path}: can't keep a write-ahead log here (SQLite stays with {mode!r})", retry=False
                )
            for setting in SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            if new:
                with transaction(connection):
                    for table in layout.tables:
                        connection.execute(table)
                    connection.execute(f"PRAGMA application_id={layout.mark}")
                    connection.execute(f"PRAGMA user_version={layout.version}")
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(path: Path, layout: Layout) -> sqlite3.Connection | None:
    """Open without any right to write; None while the file isn't there or hasn't got its tables yet."""
    if not path.exists():
        return None
    with saying(path):
        connection = _connect(path, "ro")
        try:
            new = _check(connection, path, layout)
        except BaseException:
            connection.close()
            raise
        if new:
            connection.close()
            return None
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        least = ".".join(map(str, OLDEST_SQLITE))
        raise Broken(
            f"this Python has SQLite {sqlite3.sqlite_version}; {least} or later is needed", retry=False
        )
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=PATIENCE, check_same_thread=False)


def _check(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """True for an empty file; `Broken` for another program's file or a newer release's."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if (mark, version, tables) == (0, 0, 0):
        return True
    if mark != layout.mark:
        raise Broken(
            f"{path}: this is no {layout.what} of Palestra's, but a database of something else", retry=False
        )
    if version > layout.version:
        raise Broken(
            f"{path}: written by a newer release (format {version}; this one knows up to {layout.version});"
            " install that release or a later one",
            retry=False,
        )
    return False
