"""Corners' homes as plain folders: a corner's name in, its folder or the bytes it takes up out."""

from __future__ import annotations

import os
import re
from pathlib import Path

from palestra.rules.errors import BadInput
from palestra.rules.units import Bytes

_CORNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BLOCK = 512
"""Bytes in one unit of st_blocks, whatever the file system's own block."""


class FolderHomes:
    """`ports.Homes` below one folder. No quota is held here: `usage` is a scan, and as old as the scan."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def open(self, corner: str) -> Path:
        """The corner's home, made when it isn't there."""
        home = self._home(corner)
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        return home

    def usage(self, corner: str) -> Bytes:
        """Bytes of disk that the home takes up: blocks, so holes are free, and a file with several names counts once."""
        home = self._home(corner)
        try:
            total = home.lstat().st_blocks
        except FileNotFoundError:
            return Bytes(0)
        folders = [str(home)]
        linked: set[tuple[int, int]] = set()
        while folders:
            try:
                entries = os.scandir(folders.pop())
            except OSError:  # gone meanwhile, or closed to us
                continue
            with entries:
                for entry in entries:
                    try:
                        seen = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif seen.st_nlink > 1:
                        if (seen.st_dev, seen.st_ino) in linked:
                            continue
                        linked.add((seen.st_dev, seen.st_ino))
                    total += seen.st_blocks
        return Bytes(total * _BLOCK)

    def _home(self, corner: str) -> Path:
        if not _CORNER.fullmatch(corner):
            raise BadInput("corner", corner, "a corner is 1 to 64 letters, digits, dashes or underscores")
        return self._root / corner / "home"
