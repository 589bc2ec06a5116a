"""The vault on a disk: manifests and source folders in, kept artifacts by digest out; each copy goes on in a child of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from palestra.events.base import clip
from palestra.ports import CopyResult
from palestra.rules.errors import BadInput
from palestra.rules.manifest import Manifest, artifact_digest
from palestra.rules.units import GIB, Bytes, Digest
from palestra.vault.codes import COPY_BROKE
from palestra.vault.inspect import Limits
from palestra.vault.order import (
    LOCK,
    LOG,
    ORDER,
    PID,
    PROGRESS,
    RESULT,
    Order,
    kept_file,
    kept_folder,
    read_kept,
    read_result,
    sync_folder,
    write_by_rename,
)

Start = Callable[[Sequence[str], Path], int]
"""Starts an argv that outlives us, its output into a file; gives its pid, which this vault then waits for."""

CHILD_MEMORY = Bytes(4 * GIB)
_COPY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LARGE = 10**9
"""Bytes. A copy from this size on waits for one of the few places of the large; smaller ones have their own (S06)."""


def start_child(argv: Sequence[str], log: Path) -> int:
    """In a session of its own, with one thread for arithmetic and nothing of our environment but the paths."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")
        if name in os.environ
    }
    env = {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    out = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        argv[0],
        list(argv),
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), out, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


class _Copy:
    """A copy that hasn't ended: its order, its child if we started one, and tries that got no further."""

    def __init__(self, order: Order, folder: Path) -> None:
        self.order = order
        self.folder = folder
        self.large = order.manifest.size >= LARGE
        self.pid: int | None = None
        self.stuck = 0
        self.reached = 0
        self.not_before = 0.0


class FolderVault:
    """`palestra.ports.Vault` in a folder: `<hex>/` is an artifact, `<hex>.json` its inspection, `copies/<id>/` a copy."""

    def __init__(
        self,
        root: Path,
        base: Path,
        *,
        homes: Path | None = None,
        limits: Limits | None = None,
        memory: Bytes = CHILD_MEMORY,
        start: Start = start_child,
        small_at_once: int = 8,
        large_at_once: int = 2,
        retry_after: Sequence[float] = (1.0, 10.0, 60.0, 300.0),
    ) -> None:
        """`homes`: below it no part of a source's path may be a link. `memory`: a child's address space.
        `retry_after`: seconds before each new try of a copy whose child died without getting further; after the
        last one the copy ends as `copy_broke`."""
        self.root = root.absolute()
        self.base = base.absolute()
        self.homes = homes.absolute() if homes else None
        self.limits = limits or Limits()
        self.memory = memory
        self.start = start
        self.at_once = {True: large_at_once, False: small_at_once}
        self.retry_after = tuple(retry_after)
        self.copies = self.root / "copies"
        self.copies.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._open: dict[str, _Copy] = {}
        self._ended: dict[str, CopyResult] = {}
        self._find_earlier()

    def _find_earlier(self) -> None:
        """Copies of a server before us: they go on, or are begun again, at the next look."""
        for half in self.root.glob("dropped-*"):
            shutil.rmtree(half, ignore_errors=True)
        orders = sorted(self.copies.glob(f"*/{ORDER}"), key=lambda path: path.stat().st_mtime_ns)
        for path in orders:
            self._open[path.parent.name] = _Copy(
                msgspec.json.decode(path.read_bytes(), type=Order), path.parent
            )

    def copy(self, manifest: Manifest, source: Path, copy_id: str) -> None:
        """Begin a copy, once for each id; what is kept already from the same folder ends at once, nothing read (S67)."""
        if not _COPY_ID.fullmatch(copy_id):
            raise BadInput("copy id", copy_id, "1 to 64 letters, digits, '_', '.' or '-'")
        if copy_id not in self._open and copy_id not in self._ended:
            self._open[copy_id] = _Copy(self._write_order(manifest, source, copy_id), self.copies / copy_id)
        self._look()

    def _write_order(self, manifest: Manifest, source: Path, copy_id: str) -> Order:
        order = Order(
            copy=copy_id,
            root=str(self.root),
            source=str(source.absolute()),
            base=str(self.base),
            manifest=manifest,
            homes=str(self.homes) if self.homes else None,
            limits=self.limits,
            memory=self.memory,
        )
        folder = self.copies / copy_id
        folder.mkdir(exist_ok=True, mode=0o700)
        kept = read_kept(self.root, artifact_digest(manifest))
        if kept and order.source in kept.sources:
            again = CopyResult(
                copy=copy_id, artifact=kept.artifact, size=kept.size, inspection=kept.inspection, again=True
            )
            write_by_rename(folder / RESULT, msgspec.json.encode(again))
        write_by_rename(folder / ORDER, msgspec.json.encode(order))
        sync_folder(self.copies)
        return order

    def results(self) -> list[CopyResult]:
        self._look()
        return list(self._ended.values())

    def _look(self) -> None:
        """Collect what ended, then start what may start, in the order asked."""
        running = {True: 0, False: 0}
        idle = []
        for copy_id, copy in list(self._open.items()):
            alive = self._is_alive(copy)  # asked first: a child that ends in between has left its result
            result = read_result(copy.folder)
            if result:
                self._ended[copy_id] = result
                del self._open[copy_id]
            elif alive:
                running[copy.large] += 1
            elif copy.pid is None or not self._give_up(copy):
                idle.append(copy)
        for copy in idle:
            if running[copy.large] < self.at_once[copy.large] and time.monotonic() >= copy.not_before:
                running[copy.large] += 1
                argv = (sys.executable, "-m", "palestra.vault.child", str(copy.folder))
                copy.reached = self._read_progress(copy.folder)
                copy.pid = self.start(argv, copy.folder / LOG)

    def _is_alive(self, copy: _Copy) -> bool:
        """Our own child is waited for; one that an earlier server started is known by the lock it holds."""
        if copy.pid is not None:
            try:
                return os.waitpid(copy.pid, os.WNOHANG) == (0, 0)
            except ChildProcessError:
                pass
        return is_locked(copy.folder)

    def _give_up(self, copy: _Copy) -> bool:
        """After a child that died without a result: note when to try again, or end the copy."""
        copy.pid = None
        got_further = self._read_progress(copy.folder) > copy.reached
        copy.stuck = 1 if got_further else copy.stuck + 1
        if copy.stuck <= len(self.retry_after):
            copy.not_before = time.monotonic() + self.retry_after[copy.stuck - 1]
            return False
        evidence = f"the copy's process ended {copy.stuck} times without a result: {_tail(copy.folder / LOG)}"
        broke = CopyResult(copy=copy.order.copy, code=COPY_BROKE, evidence=clip(evidence))
        write_by_rename(copy.folder / RESULT, msgspec.json.encode(broke))
        self._ended[copy.order.copy] = broke
        del self._open[copy.order.copy]
        return True

    def progress(self, copy_id: str) -> Bytes:
        return self._read_progress(self.copies / copy_id)

    @staticmethod
    def _read_progress(folder: Path) -> Bytes:
        try:
            return Bytes(int((folder / PROGRESS).read_bytes() or b"0"))
        except FileNotFoundError:
            return Bytes(0)

    def path(self, digest: Digest) -> Path:
        if read_kept(self.root, digest) is None:
            raise KeyError(digest)
        return kept_folder(self.root, digest)

    def forget(self, copy_id: str) -> None:
        """Drop what is known of a copy; one that still runs is stopped."""
        copy = self._open.pop(copy_id, None)
        self._ended.pop(copy_id, None)
        if copy is not None and self._is_alive(copy):
            self._kill(copy)
        shutil.rmtree(self.copies / copy_id, ignore_errors=True)

    def _kill(self, copy: _Copy) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ChildProcessError):
            pid = copy.pid or int((copy.folder / PID).read_text())
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def drop(self, digest: Digest) -> None:
        """Let go of an artifact: first its name, so that a crash never leaves half of one, then its files."""
        folder = kept_folder(self.root, digest)
        going = self.root / f"dropped-{folder.name}"
        if folder.exists():
            folder.rename(going)
        kept_file(self.root, digest).unlink(missing_ok=True)
        shutil.rmtree(going, ignore_errors=True)


def is_locked(folder: Path) -> bool:
    """Whether some child works on this copy. The kernel lets go of its lock when it is gone, so no pid is mistaken."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _tail(log: Path) -> str:
    try:
        return log.read_text(errors="replace")[-600:].strip() or "it said nothing"
    except FileNotFoundError:
        return "it said nothing"
