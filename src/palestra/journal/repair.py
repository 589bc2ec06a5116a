"""Repair of a journal's end before it is opened: an interrupted write in its write-ahead file goes to a file of its own.

SQLite would drop such bytes without a word. They were never acknowledged, so nothing is lost by it, but what happens
to the book is itself recorded: the bytes are kept, and the runtime journals `TailRepaired`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from palestra.journal.wal import scan
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Bytes

KEPT_AS = "journal.tail-"


class TailFound(msgspec.Struct, frozen=True):
    """Bytes of an interrupted write, set aside in the run folder under this name."""

    size: Bytes
    kept_as: str


def set_tail_aside(wal: Path) -> None:
    """Move an interrupted write out of the write-ahead file. Nobody may be writing it.

    `Corrupt` when transactions that were acknowledged lie behind the damage: then more than an interrupted write is lost.
    """
    try:
        end = scan(wal)
    except OSError as error:
        raise Broken(f"{wal}: can't be read: {error.strerror}", retry=False) from error
    if end.commits_lost > 1:
        raise Corrupt(
            f"{wal}: damaged at byte {end.committed}, and {end.commits_lost} later writes can no longer be read;"
            " restore the run folder from a backup"
        )
    if end.tail == end.tail_end:
        return
    try:
        _copy_out(wal, end.tail, end.tail_end)
        os.truncate(wal, end.tail)
        _sync(wal)
    except OSError as error:
        raise Broken(
            f"{wal.parent}: the interrupted end of the journal can't be set aside: {error}"
        ) from error


def list_tails(folder: Path) -> tuple[TailFound, ...]:
    """All tails ever set aside in this run folder, oldest first."""
    found = [path for path in folder.glob(f"{KEPT_AS}*") if _number(path) > 0]
    return tuple(TailFound(Bytes(path.stat().st_size), path.name) for path in sorted(found, key=_number))


def _copy_out(wal: Path, begin: int, end: int) -> None:
    """Whole or not at all: the name appears only once the bytes are safe."""
    number = 1 + max((_number(path) for path in wal.parent.glob(f"{KEPT_AS}*")), default=0)
    kept = wal.with_name(f"{KEPT_AS}{number}")
    part = wal.with_name(f"{KEPT_AS}part")
    with wal.open("rb") as source, part.open("wb") as target:
        source.seek(begin)
        shutil.copyfileobj(source, target)
        target.truncate(end - begin)
    _sync(part)
    part.replace(kept)
    _sync(wal.parent)


def _number(path: Path) -> int:
    digits = path.name.removeprefix(KEPT_AS)
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
