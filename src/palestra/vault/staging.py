"""Copies files by manifest into a staging folder, hashing what it writes; files already complete are not copied again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from palestra.rules.errors import Refusal
from palestra.rules.manifest import ManifestFile
from palestra.vault.codes import SOURCE_CHANGED
from palestra.vault.order import sync_folder
from palestra.vault.source import Source

BLOCK = 4 << 20
PART = ".part"

Report = Callable[[int], None]
"""Called with the bytes that went by."""


def copy_file(source: Source, file: ManifestFile, staging: Path, report: Report) -> None:
    """One file, verified and durable under its own name when this returns; `source_changed` when it isn't what was sealed."""
    goal = staging / file.path
    if is_complete(goal, file):
        report(file.bytes)
        return
    goal.parent.mkdir(parents=True, exist_ok=True)
    part = goal.with_name(goal.name + PART)
    with source.open(file.path) as reader, part.open("wb", buffering=0) as writer:
        _expect(hash_through(reader, file, report, writer), file)
        os.fchmod(writer.fileno(), 0o444)
        os.fsync(writer.fileno())
    part.replace(goal)
    sync_folder(goal.parent)


def check_file(source: Source, file: ManifestFile, report: Report) -> None:
    """Read one file without keeping it: whoever names it must have it."""
    with source.open(file.path) as reader:
        _expect(hash_through(reader, file, report), file)


def is_complete(path: Path, file: ManifestFile) -> bool:
    """Whether an earlier try already left this file whole."""
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    with path.open("rb") as reader:
        return hashlib.file_digest(reader, "sha256").hexdigest() == file.sha256


def hash_through(reader: BinaryIO, file: ManifestFile, report: Report, writer: BinaryIO | None = None) -> str:
    """Read exactly the sealed number of bytes, once; what is hashed is what is written."""
    found = os.fstat(reader.fileno()).st_size
    if found != file.bytes:
        raise _changed(file, f"is {found:,} bytes, sealed were {file.bytes:,}")
    digest = hashlib.sha256()
    block = memoryview(bytearray(min(BLOCK, file.bytes) or 1))
    left = file.bytes
    while left:
        count = os.readv(reader.fileno(), [block[:left]])
        if not count:
            raise _changed(file, f"became {left:,} bytes shorter while it was copied")
        digest.update(block[:count])
        if writer is not None:
            _write(writer, block[:count])
        left -= count
        report(count)
    return digest.hexdigest()


def _write(writer: BinaryIO, data: memoryview) -> None:
    while data:
        data = data[writer.write(data) :]


def _expect(found: str, file: ManifestFile) -> None:
    if found != file.sha256:
        raise _changed(file, f"has sha256 {found[:12]}..., sealed was {file.sha256[:12]}...")


def _changed(file: ManifestFile, how: str) -> Refusal:
    return Refusal(
        SOURCE_CHANGED,
        f"{file.path} {how}: it changed since it was sealed. Seal and nominate again",
        subject=file.path,
    )
