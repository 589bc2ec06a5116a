"""Makes what a competition can make for itself, such as its base model: its rules in, files in its folder out, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from palestra.rules.errors import Broken
from palestra.runtime.opening import Source

SHOWN = 8
"""Lines of a failed command's output that are repeated."""


def prepare(source: Source, say: Callable[[str], None] | None = None) -> None:
    """Run each command whose `creates` is absent. What a command left that failed or was killed is not taken for the whole."""
    for step in source.rules.prepare:
        target = source.folder / step.creates
        mark = target.with_name(f"{target.name}.preparing")
        if target.exists() and not mark.exists():
            continue
        if say is not None:
            say(f"preparing {step.creates}: {' '.join(step.run)}")
        target.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text("While this file is here, what lies beside it may be half made, and is made anew.\n")
        _remove(target)
        _run(step.creates, step.run, source.folder, target)
        mark.unlink()


def _run(what: str, words: Sequence[str], folder: Path, target: Path) -> None:
    argv = [sys.executable if words[0] == "python" else words[0], *words[1:]]
    try:
        done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        raise Broken(f"preparing {what}: {argv[0]} can't be run: {error.strerror}", retry=False) from None
    if not done.returncode and target.exists():
        return
    why = f"failed with exit code {done.returncode}" if done.returncode else f"ended without making {target}"
    tail = done.stdout.decode("utf-8", "replace").splitlines()[-SHOWN:]
    said = "\n".join([f"preparing {what}: {' '.join(argv)} {why}", *tail])
    raise Broken(said, retry=False)


def _remove(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
