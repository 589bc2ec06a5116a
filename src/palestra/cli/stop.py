"""`palestra stop RUN`: the server leaves in good order; `palestra run` goes on later."""

from __future__ import annotations

import argparse
import os
import select
from pathlib import Path

from palestra.cli.door import call, how_to_go_on
from palestra.rules.errors import Broken
from palestra.runtime.folder import RunFolder

PATIENCE = 60.0
"""Seconds until a stop that isn't done is reported."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")
    parser.add_argument(
        "--leave-running",
        action="store_true",
        help="agents and jobs go on without a server, for example for an upgrade",
    )


def run(options: argparse.Namespace) -> int:
    """Ask the run's server, and wait until it is gone."""
    folder = RunFolder(options.run_folder)
    pid = call(folder, "POST", "/stop", leave_running=options.leave_running)["pid"]
    if not _is_gone(pid, PATIENCE):
        raise Broken(
            f"the server of {folder.path}, process {pid}, was asked to stop {PATIENCE:.0f} s ago and is still there"
        )
    what = "agents and jobs go on" if options.leave_running else "the run is paused"
    print(f"stopped; {what}. Go on with: {how_to_go_on(folder)}")
    return 0


def _is_gone(pid: int, seconds: float) -> bool:
    """Wait for the process itself: its doors close long before its agents and jobs are gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)
