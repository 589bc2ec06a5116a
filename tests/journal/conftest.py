"""A run folder for journals, and processes that write one."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palestra.journal.filesystem import refuse_unfit
from palestra.rules.errors import Broken

MEMORY = Path("/dev/shm")
CHILD = Path(__file__).with_name("child.py")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """On this test's own disk where that is fit for a journal, else in memory."""
    try:
        refuse_unfit(tmp_path)
    except Broken as unfit:  # inside a container, temporary folders lie on a layered file system
        if not MEMORY.is_dir():
            pytest.skip(str(unfit))
        with tempfile.TemporaryDirectory(dir=MEMORY) as made:
            yield Path(made)
    else:
        yield tmp_path


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be had, for tests of many commits that aren't about the disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as made:
        yield Path(made)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `child.py` with these arguments; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start_child(*arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, str(CHILD), *map(str, arguments)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1))
        return started[-1]

    yield start_child
    for child in started:
        child.kill()
        child.communicate()
