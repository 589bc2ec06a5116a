"""Paths that entrants name: a home and a path in, the place inside the home or a clear no out; sealed folders are read here."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from palestra.rules.errors import BadInput, Refusal
from palestra.rules.manifest import FILE_NAME, Manifest, read_manifest
from palestra.rules.units import show_size

LONGEST_MANIFEST = 4 << 20
"""Bytes; 200 files with the longest paths that a file system takes are fewer."""


def find_inside(home: Path, field: str, path: str, below: str = ".") -> Path:
    """A path inside the home; nothing else may be named."""
    home = home.resolve()
    try:  # it may be too long, a circle of links, or lead to a name that isn't text
        target = (home / below / path).resolve()
        str(target).encode()
        target.exists()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it can't be followed"
        raise BadInput(field, path, f"give a path that can be opened ({why})") from None
    if not target.is_relative_to(home):
        right = "give a path inside your home; no '..', absolute path or link may lead out of it"
        raise BadInput(field, path, right)
    return target


async def read_sealed(home: Path, path: str) -> tuple[Manifest, str]:
    """The manifest of a sealed folder, and where it is in the home."""
    return await asyncio.to_thread(_read_sealed, home, path)


def _read_sealed(home: Path, path: str) -> tuple[Manifest, str]:
    folder = find_inside(home, "path", path)
    file = folder / FILE_NAME
    data = _read_regular(file)
    if data is None:
        raise Refusal(
            "not_sealed", f"{path} has no {FILE_NAME}: seal it first with `arena seal {path}`", subject="path"
        )
    if len(data) > LONGEST_MANIFEST:
        raise BadInput("path", path, f"its {FILE_NAME} has more than {show_size(LONGEST_MANIFEST)}")
    return read_manifest(data), str(folder.relative_to(home.resolve()))


def _read_regular(file: Path) -> bytes | None:
    """A plain file's first bytes. What an agent puts there meanwhile, such as a pipe or a link, can't hold a thread up."""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as plain:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        return plain.read(LONGEST_MANIFEST + 1)
