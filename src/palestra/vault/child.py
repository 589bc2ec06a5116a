"""`python -m palestra.vault.child FOLDER`: makes one copy in a process of its own. An order in, a result by rename out."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import sys
from pathlib import Path

import msgspec

from palestra.events.base import clip
from palestra.ports import CopyResult
from palestra.rules.errors import BadInput, Refusal
from palestra.rules.manifest import FILE_NAME, artifact_digest, manifest_bytes, read_manifest
from palestra.rules.units import Bytes
from palestra.vault.codes import NOT_LOADABLE
from palestra.vault.inspect import check_outline, inspect
from palestra.vault.layout import read_layout
from palestra.vault.order import (
    FILES,
    LOCK,
    NORMS,
    ORDER,
    PID,
    PROGRESS,
    RESULT,
    Kept,
    Order,
    kept_file,
    kept_folder,
    read_kept,
    sync_folder,
    write_by_rename,
)
from palestra.vault.source import Source
from palestra.vault.staging import check_file, copy_file

BUSY = 75
"""Exit code when another child already works on this copy."""


def main() -> int:
    folder = Path(sys.argv[1])
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process is gone, however it goes
    except BlockingIOError:
        return BUSY
    (folder / PID).write_text(str(os.getpid()))
    if (folder / RESULT).exists():
        return 0
    order = msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)
    _limit(order)
    try:
        result = Copy(order, folder).make()
    except Refusal as refusal:
        result = CopyResult(copy=order.copy, code=refusal.code, evidence=clip(refusal.message))
    except BadInput as error:
        result = CopyResult(copy=order.copy, code=NOT_LOADABLE, evidence=clip(str(error)))
    if result.code:
        shutil.rmtree(folder / FILES, ignore_errors=True)
    write_by_rename(folder / RESULT, msgspec.json.encode(result))
    return 0


def _limit(order: Order) -> None:
    """What is read was made by others: a file that asks for too much ends this process, not the machine."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = order.memory if hard == resource.RLIM_INFINITY else min(order.memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


class Copy:
    """One copy, from the order to the kept folder. Every step may be done again after a crash."""

    def __init__(self, order: Order, folder: Path) -> None:
        self.order = order
        self.folder = folder
        self.root = Path(order.root)
        self.base = Path(order.base)
        self.staging = folder / FILES
        self.manifest = read_manifest(manifest_bytes(order.manifest))
        self.artifact = artifact_digest(self.manifest)
        self.size = Bytes(self.manifest.size)
        self._done = 0
        self._progress = os.open(folder / PROGRESS, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._report(0)

    def make(self) -> CopyResult:
        kept = read_kept(self.root, self.artifact)
        if (
            kept and kept.copy == self.order.copy
        ):  # an earlier child kept it, and was gone before it could say so
            return self._result(kept, again=False)
        if not kept:
            read_layout([file.path for file in self.manifest.files])
        with self._open_source() as source:
            if kept:
                return self._confirm(source, kept)
            self._stage(source)
        inspection = inspect(self.staging, self.base, self.order.limits, self.root / NORMS)
        source_folder = (self.order.source,)
        mine = Kept(
            artifact=self.artifact,
            size=self.size,
            copy=self.order.copy,
            inspection=inspection,
            sources=source_folder,
        )
        return self._keep(mine)

    def _open_source(self) -> Source:
        return Source(Path(self.order.source), Path(self.order.homes) if self.order.homes else None)

    def _stage(self, source: Source) -> None:
        """Small files first, then a look at headers where they lie, then the large ones: a clear no comes early (F31)."""
        self.staging.mkdir(exist_ok=True)
        small = [file for file in self.manifest.files if not file.path.endswith(".safetensors")]
        for file in small:
            copy_file(source, file, self.staging, self._report)
        self._look_ahead(source)
        for file in self.manifest.files:
            if file not in small:
                copy_file(source, file, self.staging, self._report)
        write_by_rename(self.staging / FILE_NAME, manifest_bytes(self.manifest))

    def _look_ahead(self, source: Source) -> None:
        names = [file.path for file in self.manifest.files]
        try:
            check_outline(names, source.open, self.base, self.order.limits)
        except Refusal as refusal:
            # Not yet verified: what looks wrong may be a file that changed after it was sealed, and that is another answer.
            for file in self.manifest.files:
                if file.path.endswith(".safetensors") and refusal.subject == file.path:
                    check_file(source, file, lambda count: None)
            raise

    def _confirm(self, source: Source, kept: Kept) -> CopyResult:
        """Kept already, but from another folder: a manifest alone doesn't show that its maker has the weights."""
        for file in self.manifest.files:
            check_file(source, file, self._report)
        known = msgspec.structs.replace(kept, sources=(*kept.sources, self.order.source))
        write_by_rename(kept_file(self.root, self.artifact), msgspec.json.encode(known))
        return self._result(known, again=True)

    def _keep(self, mine: Kept) -> CopyResult:
        goal = kept_folder(self.root, self.artifact)
        if not goal.exists():
            write_by_rename(kept_file(self.root, self.artifact), msgspec.json.encode(mine))
        try:
            self.staging.rename(goal)
        except OSError:
            other = read_kept(self.root, self.artifact)
            if other is None:
                raise
            shutil.rmtree(self.staging)  # another copy of the same weights was faster
            return self._result(other, again=True)
        sync_folder(self.root)
        return self._result(mine, again=False)

    def _result(self, kept: Kept, *, again: bool) -> CopyResult:
        return CopyResult(
            copy=self.order.copy,
            artifact=kept.artifact,
            size=kept.size,
            inspection=kept.inspection,
            again=again,
        )

    def _report(self, count: int) -> None:
        self._done += count
        os.pwrite(self._progress, b"%020d" % self._done, 0)


if __name__ == "__main__":
    sys.exit(main())
