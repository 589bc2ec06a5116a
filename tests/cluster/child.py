"""A server to be killed: `child.py SPOOL RUNS JOBS` starts its jobs in order, saying each key when its start returned.

Every job appends a byte to its own file in RUNS when it begins, so that a second run would show.
"""

import sys
from pathlib import Path

from palestra.cluster.processes import LocalProcesses
from palestra.ports import Process
from palestra.rules.units import SECOND, Micros

UNIT = "test:killed:"


def process(runs: Path, key: str, number: int) -> Process:
    """Ends with a code of its own, after a moment that differs from job to job."""
    script = f"printf x >>{key}; sleep 0.{number % 7}; exit {number % 250 + 1}"
    env = (("PATH", "/usr/bin:/bin"),)
    return Process(argv=("sh", "-c", script), cwd=str(runs), env=env, limit=Micros(60 * SECOND))


def main() -> None:
    spool, runs, jobs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    processes = LocalProcesses(spool, UNIT)
    for number in range(jobs):
        key = f"A-j{number}.1"
        processes.start(process(runs, key, number), key)
        processes.poll()
        sys.stdout.write(f"{key}\n")
        sys.stdout.flush()
    sys.stdin.read()  # until killed


if __name__ == "__main__":
    main()
