"""A terminal for these tests: `palestra` with arguments in, exit code and what it said out; in this process or as a child."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from palestra.cli.main import run

ROOT = Path(__file__).resolve().parents[2]


class Said(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one thing that went wrong: a line that a stranger can read."""
        assert self.out == "", self
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("palestra: "), self
        for odd in ("Traceback", "Errno", "Error(", "<class", "object at 0x", "None", "\x1b"):
            assert odd not in lines[0], self
        return lines[0].removeprefix("palestra: ")


def palestra(*words: str | Path) -> Said:
    """In this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run([str(word) for word in words])
        except SystemExit as end:  # argparse's own way out
            code = end.code if isinstance(end.code, int) else 1
    return Said(code, out.getvalue(), err.getvalue())


def child(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: str = "",
) -> Said:
    """A Python of its own, which finds this tree's sources."""
    ours = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), **(env or {})}
    done = subprocess.run(
        [python or sys.executable, *map(str, argv)],
        env=ours,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return Said(done.returncode, done.stdout, done.stderr)
