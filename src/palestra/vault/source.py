"""Opens files of a folder that someone else can write to: no link is followed, nothing outside is reached (F33)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from palestra.rules.errors import Refusal
from palestra.vault.codes import SOURCE_CHANGED, UNSAFE_FILE

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a planted pipe would hold us up for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Source:
    """A sealed folder, opened. `below` is the last folder whose own path is trusted; from there on no part may be a link."""

    def __init__(self, folder: Path, below: Path | None = None) -> None:
        self.folder = folder
        trusted = below or Path("/")
        if not folder.is_absolute() or ".." in folder.parts or not folder.is_relative_to(trusted):
            raise Refusal(UNSAFE_FILE, f"{folder} does not lie below {trusted}")
        self._fd = os.open(trusted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folder.relative_to(trusted).parts:
                inner = self._step(self._fd, part, _FOLDER, part)
                os.close(self._fd)
                self._fd = inner
        except BaseException:
            self.close()
            raise

    def open(self, name: str) -> BinaryIO:
        """A regular file with one link, by its name below the folder."""
        *folders, last = name.split("/")
        if any(part in ("", ".", "..") for part in (*folders, last)):
            raise Refusal(UNSAFE_FILE, f"{name} leaves the folder", subject=name)
        at = self._fd
        try:
            for part in folders:
                inner = self._step(at, part, _FOLDER, name)
                if at != self._fd:
                    os.close(at)
                at = inner
            file = self._step(at, last, _FILE, name)
        finally:
            if at != self._fd:
                os.close(at)
        try:
            self._check(os.fstat(file), name)
            return os.fdopen(file, "rb", buffering=0)
        except BaseException:
            os.close(file)
            raise

    def _step(self, at: int, part: str, flags: int, name: str) -> int:
        try:
            return os.open(part, flags, dir_fd=at)
        except OSError as error:
            if _is_link(at, part):
                raise Refusal(
                    UNSAFE_FILE, f"{name} is or goes through a link; seal the files themselves", subject=name
                ) from None
            what = "is gone" if isinstance(error, FileNotFoundError) else f"can't be opened: {error.strerror}"
            raise Refusal(SOURCE_CHANGED, f"{name} {what} since it was sealed", subject=name) from None

    @staticmethod
    def _check(found: os.stat_result, name: str) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise Refusal(UNSAFE_FILE, f"{name} is not a regular file", subject=name)
        if found.st_nlink != 1:
            raise Refusal(
                UNSAFE_FILE,
                f"{name} is a hard link, one of {found.st_nlink}; copy the file instead",
                subject=name,
            )

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_link(at: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False
