"""What vault and child tell each other through files: an order in, a result out, and what is kept beside an artifact."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from palestra.events.nominations import Inspection
from palestra.ports import CopyResult
from palestra.rules.manifest import Manifest
from palestra.rules.units import Bytes, Digest
from palestra.vault.inspect import Limits

ORDER, RESULT, LOCK, PID, PROGRESS, LOG, FILES = (
    "order.json", "result.json", "lock", "pid", "progress", "log.txt", "files"
)  # fmt: skip
"""Names in a copy's folder: `copies/<copy id>/`."""
NORMS = "base-norms.json"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One copy to be made. Written once; a child that takes over after a crash reads the same order."""

    copy: str
    root: str
    source: str
    base: str
    manifest: Manifest
    homes: str | None = None
    """The folder below which no part of the source's path may be a link."""
    limits: Limits = Limits()
    memory: Bytes
    """Address space of the child."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Stored beside a kept artifact: what its inspection found, and which folders were seen to hold it."""

    artifact: Digest
    size: Bytes
    copy: str
    inspection: Inspection
    sources: tuple[str, ...]
    """Folders whose files were read and matched. Only from these may it be nominated again without reading."""


def kept_folder(root: Path, artifact: Digest) -> Path:
    return root / artifact.removeprefix("sha256:")


def kept_file(root: Path, artifact: Digest) -> Path:
    return root / f"{artifact.removeprefix('sha256:')}.json"


def read_kept(root: Path, artifact: Digest) -> Kept | None:
    """What is known of a kept artifact; None when it isn't kept. The folder's own rename is what keeps it."""
    if not kept_folder(root, artifact).is_dir():
        return None
    return msgspec.json.decode(kept_file(root, artifact).read_bytes(), type=Kept)


def read_result(folder: Path) -> CopyResult | None:
    """How a copy ended, None while it hasn't."""
    try:
        result = msgspec.json.decode((folder / RESULT).read_bytes(), type=CopyResult)
    except FileNotFoundError:
        return None
    if result.inspection is None:
        return result
    return msgspec.structs.replace(result, inspection=msgspec.convert(result.inspection, Inspection))


def write_by_rename(path: Path, data: bytes) -> None:
    """There completely or not at all, also after a power cut."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
