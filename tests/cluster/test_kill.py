"""The server is killed with -9 while it starts jobs, again and again: each job runs once and ends with its own code."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from palestra.cluster.processes import LocalProcesses
from palestra.ports import ProcessSnapshot

CHILD = Path(__file__).with_name("child.py")
JOBS = 40
UNIT = "test:killed:"


def serve_and_die(spool: Path, runs: Path, upto: int, chance: random.Random) -> int:
    """One life of a server; returns how many jobs it said it had started."""
    argv = [sys.executable, str(CHILD), str(spool), str(runs), str(JOBS)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        lines = 0
        while lines < upto and server.stdout.readline():
            lines += 1
        # Then, somewhere within the next start: a timer, as its moment is what is drawn.
        timer = threading.Timer(chance.uniform(0, 0.02), server.kill)
        timer.start()
        timer.join()
        server.wait()
    return lines


def ended(processes: LocalProcesses, count: int) -> dict[str, ProcessSnapshot]:
    deadline = time.monotonic() + 60
    while True:
        snapshots = {snapshot.key: snapshot for snapshot in processes.poll()}
        if len(snapshots) == count and all(one.state != "running" for one in snapshots.values()):
            return snapshots
        assert time.monotonic() < deadline, snapshots
        time.sleep(0.05)


@pytest.mark.slow
def test_kill_9_of_the_server_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Design 5: attempts outlive the server, and are adopted by reading their files."""
    spool, runs = tmp_path / "spool", tmp_path / "runs"
    runs.mkdir()
    chance = random.Random(2)
    upto = 0
    while upto < JOBS:
        upto = min(JOBS, upto + chance.randint(0, 8))
        assert serve_and_die(spool, runs, upto, chance) == upto
    snapshots = ended(LocalProcesses(spool, UNIT), JOBS)
    for number in range(JOBS):
        snapshot = snapshots[f"A-j{number}.1"]
        assert (snapshot.state, snapshot.exit_code) == ("exited", number % 250 + 1)
        assert (runs / f"A-j{number}.1").read_bytes() == b"x"
