"""A served run from an organiser's terminal: orders, a full disk, a killed server, a lost key. Real processes, so marked slow."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.terminal import ROOT, palestra
from tests.runtime.opening import TOML, write_competition

from palestra.events.codec import Row
from palestra.journal.tail import Tail
from palestra.runtime.folder import RunFolder

pytestmark = pytest.mark.slow
DEADLINE = 60.0
"""Seconds."""
AGENT = """
[[entrants]]
name = "Sleeper"
harness = "command"
command = ["sleep", "60"]
"""
KEYED = """
[[upstreams]]
name = "real"
url = "https://models.example/v1"
key_env = "MODEL_KEY"

[[models]]
name = "large"
upstream = "real"
input = "$1"
output = "$1"
"""


def until(true: Callable[[], bool], what: str) -> None:
    """Return once it is true."""
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.05)


class Terminal:
    """One organiser's terminal in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = RunFolder(place / "runs" / "small")
        self.servers: list[subprocess.Popen[bytes]] = []
        self.err = place / "err.txt"

    def serve(self, *words: str, out: int | None = None, **env: str) -> subprocess.Popen[bytes]:
        """`palestra run WORDS`, up."""
        argv = [sys.executable, "-m", "palestra", "run", *words]
        ours = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), **env}
        with self.err.open("wb") as err, (self.place / "out.txt").open("wb") as told:
            server = subprocess.Popen(
                argv, cwd=self.place, env=ours, stdout=told if out is None else out, stderr=err
            )
        self.servers.append(server)
        until(lambda: server.poll() is not None or self.is_up(), "the server is up")
        return server

    def is_up(self) -> bool:
        if not self.folder.exists:
            return False
        return bool(json.loads(palestra("status", self.folder.path, "--json").out or "{}").get("served"))

    def ended(self, server: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Its exit code and all that it complained of."""
        return server.wait(DEADLINE), self.err.read_text()

    @property
    def rows(self) -> list[Row]:
        tail = Tail(self.folder.path)
        rows = list(tail.rows())
        tail.close()
        return rows

    def close(self) -> None:
        """Nothing of ours stays."""
        for server in self.servers:
            if server.poll() is None:
                server.kill()
                server.wait()
        for path in self.folder.spool.glob("*/*/child"):
            with suppress(OSError, ValueError):
                os.killpg(int(path.read_text().split()[0]), signal.SIGKILL)
        shutil.rmtree(self.folder.sockets(), ignore_errors=True)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    write_competition(tmp_path, AGENT)
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_orders_from_another_terminal(terminal: Terminal) -> None:
    server = terminal.serve("competition")
    run = terminal.folder.path
    assert palestra("status", run).out.startswith("Small: running, as of T+")
    said = palestra("pause", run, "--reason", "a broken cable")
    assert said.code == 0 and said.out.startswith(
        "paused: no calls and no starts; running jobs go on and pay."
    )
    again = palestra("pause", run)
    assert again.code == 1 and again.sentence.startswith("paused already, by organiser:")
    assert "paused by organiser:" in palestra("status", run).out
    assert palestra("resume", run).out == "resumed\n"
    assert palestra("verify", run).code == 0
    said = palestra("stop", run)
    assert said.code == 0
    assert said.out == "stopped; the run is paused. Go on with: palestra run --run small\n"
    code, err = terminal.ended(server)
    assert (code, err) == (0, "stopped; go on with: palestra run --run small\n")
    told = (terminal.place / "out.txt").read_text()
    assert "paused by organiser:" in told and ": a broken cable" in told
    assert "A starts (A-s1, command)" in told and "A session A-s1 stopped" in told
    kinds = [row.kind for row in terminal.rows]
    assert kinds[-1] == "ServerStopped" and kinds.count("SessionEnded") == 1


def test_a_full_disk_ends_the_server_in_a_sentence_and_a_restart_goes_on(terminal: Terminal) -> None:
    """F03: exit code 75; what was acknowledged is there, and the next server goes on from the last row."""
    server = terminal.serve("competition")
    largest = max(path.stat().st_size for path in terminal.folder.path.glob("*.db*"))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest + 20_000, resource.RLIM_INFINITY))
    acknowledged = 0
    while server.poll() is None:
        for verb in ("pause", "resume"):
            acknowledged += palestra(verb, terminal.folder.path).code == 0
    code, err = terminal.ended(server)
    assert code == 75
    assert err == (
        "palestra: the journal can't be written any more; free the disk, then run again: it goes on from the last row\n"
        "agents and jobs go on; go on with: palestra run --run small\n"
    )
    kinds = [row.kind for row in terminal.rows]
    assert kinds.count("Paused") + kinds.count("Resumed") >= acknowledged > 0
    before = terminal.rows
    server = terminal.serve("--run", "small")
    assert palestra("status", terminal.folder.path).code == 0
    assert terminal.rows[: len(before)] == before
    assert [row.kind for row in terminal.rows].count("SessionStarted") == 1, "the agent was adopted"
    assert palestra("stop", terminal.folder.path).code == 0
    assert terminal.ended(server)[0] == 0
    assert palestra("verify", terminal.folder.path).code == 0


def test_after_a_kill_the_stale_sockets_are_replaced(terminal: Terminal) -> None:
    server = terminal.serve("competition")
    server.kill()
    server.wait()
    assert terminal.folder.control_socket.is_socket()
    said = palestra("stop", terminal.folder.path)
    assert said.code == 1 and "Connection refused" in said.sentence
    terminal.serve("--run", "small")
    assert palestra("stop", terminal.folder.path, "--leave-running").out == (
        "stopped; agents and jobs go on. Go on with: palestra run --run small\n"
    )
    assert not terminal.folder.control_socket.exists()


def test_a_key_that_is_gone_when_a_run_goes_on(terminal: Terminal) -> None:
    """Keys are never kept: each start needs them, and says so in a sentence."""
    file = terminal.place / "competition" / "competition.toml"
    file.write_text(TOML + KEYED + AGENT)
    server = terminal.serve("competition", MODEL_KEY="sk-1")
    assert palestra("stop", terminal.folder.path).code == 0
    assert terminal.ended(server)[0] == 0
    server = terminal.serve("--run", "small", MODEL_KEY="")
    code, err = terminal.ended(server)
    assert code == 1
    assert (
        err
        == "palestra: upstreams.real.key_env: the environment has no MODEL_KEY; set it where `palestra run` is called\n"
    )
    for path in terminal.folder.path.rglob("*"):
        assert not path.is_file() or b"sk-1" not in path.read_bytes(), path


def test_whoever_reads_along_may_leave(terminal: Terminal) -> None:
    """`palestra run ... | head`: the run goes on without its reader."""
    reading, writing = os.pipe()
    server = terminal.serve("competition", out=writing)
    os.close(writing)
    os.close(reading)
    assert palestra("pause", terminal.folder.path).code == 0
    assert palestra("resume", terminal.folder.path).code == 0
    assert palestra("stop", terminal.folder.path).code == 0
    code, err = terminal.ended(server)
    assert (code, err) == (0, "stopped; go on with: palestra run --run small\n")


def test_ctrl_c_stops_in_good_order(terminal: Terminal) -> None:
    server = terminal.serve("competition")
    server.send_signal(signal.SIGINT)
    code, err = terminal.ended(server)
    assert code == 0
    assert err == (
        "palestra: stopping; agents and jobs get up to 30 s (again to leave at once)\nstopped; go on with: palestra run --run small\n"
    )
    assert terminal.rows[-1].kind == "ServerStopped"
