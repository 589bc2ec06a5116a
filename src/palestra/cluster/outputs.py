"""Declared outputs: a path in, what is there now out, so that what a job wrote can be told from what was there before."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path

import msgspec

MOST_LOOKED_AT = 20_000
"""Entries of one declared output; a job that leaves more is known by the first of them."""


class Newest(msgspec.Struct, frozen=True):
    """The newest file at or below a path."""

    mtime_ns: int
    size: int
    inode: int


def newest(path: Path) -> Newest | None:
    """None when nothing is there; an empty folder holds no output either, and a link leads nowhere: it may leave the home."""
    try:
        if path.resolve() != path.parent.resolve() / path.name:
            return None
        here = path.lstat()
    except (OSError, ValueError, RuntimeError):
        return None
    if not stat.S_ISDIR(here.st_mode):
        return Newest(here.st_mtime_ns, here.st_size, here.st_ino)
    best: Newest | None = None
    folders = [str(path)]
    looked = 0
    while folders and looked < MOST_LOOKED_AT:
        try:
            with os.scandir(folders.pop()) as found:
                entries = list(itertools.islice(found, MOST_LOOKED_AT - looked))
        except OSError:
            continue
        looked += len(entries)
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                seen = entry.stat(follow_symlinks=False)
            except OSError:  # gone meanwhile
                continue
            if not stat.S_ISREG(seen.st_mode):
                continue
            if best is None or (seen.st_mtime_ns, seen.st_ino) > (best.mtime_ns, best.inode):
                best = Newest(seen.st_mtime_ns, seen.st_size, seen.st_ino)
    return best
