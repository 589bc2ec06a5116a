"""Harnesses: from a corner's facts to the process that is started, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from palestra.agents import HARNESSES, find_harness
from palestra.agents.prompt import first_prompt
from palestra.agents.seat import Seat
from palestra.client.arena import VERBS
from palestra.client.build import build
from palestra.ports import Process
from palestra.rules.errors import BadInput

SEAT = Seat(
    corner="A",
    session="A-s2",
    home="/runs/r1/homes/A",
    socket="/tmp/p/A/arena.sock",
    token="secret",
    arena="/runs/r1/bin/arena",
    python="/usr/bin/python3",
    base="/models/base",
    data="/runs/r1/homes/A/data",
    model="house-mini",
    command=("my-agent", "--task", "{prompt}", "--model={prompt}"),
    environment=("/venv/bin", "/usr/bin"),
)


def launched(name: str, seat: Seat = SEAT) -> tuple[Process, dict[str, str]]:
    process = find_harness(name)(seat)
    return process, dict(process.env)


@pytest.mark.parametrize("name", HARNESSES)
def test_every_harness_gives_the_same_surroundings(name: str) -> None:
    process, env = launched(name)
    assert process.cwd == env["HOME"] == SEAT.home
    assert env["PATH"] == "/runs/r1/bin:/venv/bin:/usr/bin:/usr/local/bin:/bin"
    agreed = {
        "PALESTRA_SOCKET": "/tmp/p/A/arena.sock",
        "PALESTRA_TOKEN": "secret",
        "PALESTRA_CORNER": "A",
        "PALESTRA_SESSION": "A-s2",
        "PALESTRA_MODEL": "house-mini",
        "PALESTRA_BASE": "/models/base",
        "PALESTRA_DATA": "/runs/r1/homes/A/data",
    }
    assert agreed.items() <= env.items()
    assert env["PALESTRA_PROMPT"] == first_prompt(SEAT)
    assert process.limit is None
    assert "secret" not in " ".join(process.argv)
    assert process == find_harness(name)(SEAT)


def test_the_house_runs_the_arena_command_itself() -> None:
    process, _ = launched("house")
    assert process.argv == ("/usr/bin/python3", "/runs/r1/bin/arena", "house")


def test_a_command_is_started_as_given_with_the_prompt_where_it_is_wanted() -> None:
    process, _ = launched("command")
    assert process.argv == ("my-agent", "--task", first_prompt(SEAT), "--model={prompt}")


@pytest.mark.parametrize(("name", "missing"), [("house", "model"), ("command", "command")])
def test_what_a_harness_needs_is_named(name: str, missing: str) -> None:
    bare = msgspec.structs.replace(SEAT, model="", command=())
    with pytest.raises(BadInput) as bad:
        find_harness(name)(bare)
    assert bad.value.field == missing


def test_an_unknown_harness_is_told_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="one of: command, house"):
        find_harness("hous")


def test_the_prompt_names_verbs_that_exist_and_this_corners_places() -> None:
    prompt = first_prompt(SEAT)
    named = {words.split()[0].rstrip("`.,:") for words in prompt.split("`arena ")[1:]}
    assert named <= VERBS.keys()
    assert named >= {"rules", "status", "submit", "jobs", "logs", "cancel", "seal", "nominate", "finish"}
    for place in (SEAT.home, SEAT.base, SEAT.data, "NOTES.md", "corner A"):
        assert place in prompt
    assert "{" not in prompt


def test_what_is_launched_starts(tmp_path: Path) -> None:
    """The whole environment is the one given: no variable of the server's gets through."""
    arena = build(tmp_path / "arena")
    seat = msgspec.structs.replace(
        SEAT, home=str(tmp_path), arena=str(arena), python=sys.executable, socket=str(tmp_path / "no.sock")
    )
    shell = msgspec.structs.replace(seat, command=("/bin/sh", "-c", "env; arena --help"))
    done = _start(find_harness("command")(shell))
    assert done.returncode == 0, done.stderr
    assert "usage: arena VERB" in done.stdout
    assert "PYTEST_CURRENT_TEST" in os.environ
    assert "PYTEST_CURRENT_TEST" not in done.stdout
    house = find_harness("house")(seat)
    hurried = msgspec.structs.replace(house, env=(*house.env, ("PALESTRA_PATIENCE_S", "0")))
    done = _start(hurried)
    assert done.returncode == 3
    assert "no socket there" in done.stderr


def _start(process: Process) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        process.argv, cwd=process.cwd, env=dict(process.env), capture_output=True, text=True, check=False
    )
