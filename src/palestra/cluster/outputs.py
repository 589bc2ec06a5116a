"""Declared outputs: a path in, what is there now out, so that what a job wrote can be told from what was there before."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Newest(msgspec.Struct, frozen=True):
    """The newest file at or below a path."""

    mtime_ns: int
    size: int
    inode: int


def newest(path: Path) -> Newest | None:
    """None when nothing is there; an empty folder holds no output either."""
    try:
        here = path.stat()
    except (OSError, ValueError):
        return None
    if not path.is_dir():
        return Newest(here.st_mtime_ns, here.st_size, here.st_ino)
    best: Newest | None = None
    folders = [str(path)]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                try:
                    seen = entry.stat()
                except OSError:  # a link to nowhere
                    continue
                if best is None or (seen.st_mtime_ns, seen.st_ino) > (best.mtime_ns, best.inode):
                    best = Newest(seen.st_mtime_ns, seen.st_size, seen.st_ino)
    return best
