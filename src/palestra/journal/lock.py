"""The run folder's lock: one process writes a run; a second one gets one clear sentence and changes nothing."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from palestra.rules.errors import Broken

FILE_NAME = "lock"


class Lock:
    """Held from the making to `close`, or to the end of the process however it ends.

    The file itself stays: removing it would let a newcomer lock a second file of the same name. Its descriptor isn't
    handed to started programs, so agents and jobs that outlive the server don't hold its lock.
    """

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        """Take the lock, at once or not at all unless `wait`; `Broken` names who holds it."""
        self._file = -1
        path = folder / FILE_NAME
        while self._file < 0:
            file = _open(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(file, path):
                    _sign(file)
                    self._file = file
            except BlockingIOError:
                raise Broken(_taken(folder, file), retry=False) from None
            except OSError as error:
                raise Broken(f"{path}: can't be locked: {error.strerror}", retry=False) from error
            finally:
                if self._file != file:
                    os.close(file)

    def close(self) -> None:
        """Let go."""
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Broken(f"{path}: can't be opened: {error.strerror}", retry=False) from error


def _sign(file: int) -> None:
    """Say who holds it. On a full disk the lock is as good without the name."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file still is the one at this path: someone may have removed it while we waited."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _taken(folder: Path, file: int) -> str:
    holder = os.pread(file, 20, 0).decode("ascii", "replace").strip()
    who = f"process {holder}" if holder else "another process"
    return f"{folder}: this run is being served by {who}; a run has one writer, so stop that one first"
