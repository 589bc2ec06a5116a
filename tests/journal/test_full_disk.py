"""The disk fills up (F03): what was acknowledged is there, what was not was answered with an error."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palestra.events.runs import AlarmRaised
from palestra.journal.chain import write_rows
from palestra.journal.memory import MemoryJournal
from palestra.rules.errors import Broken
from palestra.rules.units import Moment

Start = Callable[..., "subprocess.Popen[str]"]
CHILD = Path(__file__).with_name("child.py")


def check(story: Any) -> None:
    """What the child saw: it wrote until it was refused, made room, opened the journal again and went on."""
    assert story["acknowledged"], "it never got to write"
    assert story["refused"], "the disk never filled up"
    last = story["acknowledged"][-1]
    assert story["head"] == story["rows"] == last, (
        "all acknowledged rows are there, and nothing of a refused batch"
    )
    assert story["after"] == last + 1
    assert min(story["refused"]) > last
    # Everyone waiting was told, and so was one who came after the failure.
    assert len(story["errors"]) == len(story["refused"]) + 1
    assert all(error.startswith("Broken: the journal has stopped: ") for error in story["errors"])
    assert len(set(story["errors"])) == 1


def own_mounts(folder: Path) -> list[str]:
    """How to run a command where a file system of 2 MB is mounted on `folder`, seen by it alone; empty if we may not."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'
    command = ["unshare", *user, "--mount", "sh", "-c", script, str(folder)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return command if tried.returncode == 0 else []


def test_a_full_file_system_of_2_mb(tmp_path: Path) -> None:
    """F03, on a real file system that is full."""
    command = own_mounts(tmp_path)
    if not command:
        pytest.skip("no right to mount a small file system here (needs root or user namespaces)")
    told = subprocess.run(
        [*command, sys.executable, CHILD, "fill", tmp_path, "0"], stdout=subprocess.PIPE, check=True
    )
    story = json.loads(told.stdout)
    check(story)
    assert "full" in story["errors"][0] or "No space left" in story["errors"][0]


@pytest.mark.parametrize("limit", [90_000, 300_000, 600_000])
def test_a_file_that_may_grow_no_further(folder: Path, start: Start, limit: int) -> None:
    """F03, without any right: the kernel refuses to let a file pass the process's limit."""
    child = start("fill", folder, limit)
    told, _ = child.communicate()
    assert child.returncode == 0
    check(json.loads(told))


def test_the_journal_in_memory_can_be_full_too() -> None:
    """F03 for simulations: all or nothing, and nothing more after it."""
    journal = MemoryJournal("pocket", room=3)
    events = [AlarmRaised(f"disk:{n}", "") for n in range(2)]
    journal.append(write_rows(journal.head(), Moment(0), "A", events))
    rows = write_rows(journal.head(), Moment(0), "A", events)
    with pytest.raises(Broken, match="no room for row 4"):
        journal.append(rows)
    with pytest.raises(Broken, match="after a failed commit"):
        journal.append(rows[:1])
    assert journal.head()[0] == 2
    again = MemoryJournal("pocket", journal.read())
    again.append(rows)
    assert again.head()[0] == 4
