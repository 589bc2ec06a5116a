"""SQLite's write-ahead file, read without SQLite: its bytes in, where the last committed transaction ends out.

The format is fixed and described in "Database File Format", section 4, of SQLite's documentation. All numbers are
big-endian. The file has a header of 32 bytes: magic, version, page size, checkpoint number, two salts, two checksums.
Then come frames of 24 + page bytes: page number, size of the database in pages if the frame ends a transaction (else 0),
the header's salts, two checksums. Checksums run on from frame to frame, over the first 8 bytes of each header and the page.
Once all is copied into the database the file is begun anew with other salts, and old frames may follow the new ones.
"""

from __future__ import annotations

import struct
import sys
from array import array
from pathlib import Path
from typing import BinaryIO

import msgspec

HEADER = 32
FRAME_HEADER = 24
VERSION = 3_007_000
_MAGIC = 0x377F0682  # the last bit says that checksums add up big-endian words
_WORD = 0xFFFFFFFF


class WalEnd(msgspec.Struct, frozen=True):
    """How a write-ahead file ends; all offsets in bytes from its start."""

    committed: int
    """Where the last whole transaction ends; 0 when even the header can't be read."""
    tail: int
    """Where the bytes of an interrupted write begin; equal to `tail_end` when there are none."""
    tail_end: int
    commits_lost: int
    """Frames behind the break that once ended a transaction. One interrupted write leaves at most one."""


def scan(path: Path) -> WalEnd:
    """Follow the checksums to the last committed frame, then look at what lies behind it. An absent file is an empty one."""
    if not path.exists():
        return WalEnd(0, 0, 0, 0)
    with path.open("rb") as wal:
        header = wal.read(HEADER)
        size = wal.seek(0, 2)
        page, big_endian = _read_header(header)
        if page == 0:
            return WalEnd(0, 0, size, 0)
        committed = _last_commit(wal, header, page, big_endian)
        return _behind(wal, committed, size, page, salts=header[16:24])


def _read_header(header: bytes) -> tuple[int, bool]:
    """(page size, whether checksums are big-endian); page size 0 when this is no valid header."""
    if len(header) < HEADER:
        return 0, False
    magic, version, page = struct.unpack_from(">3I", header)
    big_endian = bool(magic & 1)
    known = magic & ~1 == _MAGIC and version == VERSION
    if not known or not 512 <= page <= 65_536 or page & (page - 1):
        return 0, False
    sums = _add((0, 0), header[:24], big_endian)
    return (page, big_endian) if sums == struct.unpack_from(">2I", header, 24) else (0, False)


def _last_commit(wal: BinaryIO, header: bytes, page: int, big_endian: bool) -> int:
    sums: tuple[int, int] = struct.unpack_from(">2I", header, 24)
    end = committed = wal.seek(HEADER)
    while len(frame := wal.read(FRAME_HEADER + page)) == FRAME_HEADER + page:
        number, pages_after, *_, first, second = struct.unpack_from(">6I", frame)
        if number == 0 or frame[8:16] != header[16:24]:
            break
        sums = _add(_add(sums, frame[:8], big_endian), frame[FRAME_HEADER:], big_endian)
        if sums != (first, second):
            break
        end += len(frame)
        if pages_after:
            committed = end
    return committed


def _behind(wal: BinaryIO, committed: int, size: int, page: int, salts: bytes) -> WalEnd:
    """Tell an interrupted write from old frames that were left by an earlier round, which carry other salts."""
    length = FRAME_HEADER + page
    fresh, commits = committed, 0
    for start in range(committed, size - length + 1, length):
        wal.seek(start)
        frame = wal.read(FRAME_HEADER)
        if frame[8:16] == salts:
            fresh = start + length
            commits += frame[4:8] != bytes(4)
    part = (size - committed) % length
    if fresh > committed:
        return WalEnd(committed, committed, size if part else fresh, commits)
    return WalEnd(committed, size - part, size, 0)


def _add(sums: tuple[int, int], data: bytes, big_endian: bool) -> tuple[int, int]:
    words = array("I", data)
    if big_endian != (sys.byteorder == "big"):
        words.byteswap()
    first, second = sums
    for i in range(0, len(words), 2):
        first = (first + words[i] + second) & _WORD
        second = (second + words[i + 1] + first) & _WORD
    return first, second
