"""`palestra end RUN`: the running stage is over now; copies finish, exams follow."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra.cli.door import call
from palestra.runtime.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")
    parser.add_argument("--reason", default="", help="why; it goes on the record")


def run(options: argparse.Namespace) -> int:
    """Ask the run's server."""
    call(RunFolder(options.run_folder), "POST", "/end", reason=options.reason)
    print(
        "ending: agents and jobs are stopped, pending nominations are copied and checked, then all current ones are examined"
    )
    return 0
