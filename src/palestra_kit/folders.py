"""Writes a folder so that it is there completely or not at all: into a hidden neighbour first, then one rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palestra_kit.errors import KitError


def refuse_taken(path: Path) -> None:
    """KitError when `path` holds something already; an empty folder is fine."""
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise KitError(f"{path} already holds something; name another folder or remove it first")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it takes the name `path` when the block ends well and goes when it does not."""
    refuse_taken(path)
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield draft
        draft.chmod(0o755)
        for file in draft.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
            _flush(file)
        draft.rename(path)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Have the disk keep it before the rename does, or a power cut leaves a whole folder of empty files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
