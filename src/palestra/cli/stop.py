"""`palestra stop RUN`: the server leaves in good order; `palestra run` goes on later."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from palestra.cli.door import call, is_served
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
    call(folder, "POST", "/stop", leave_running=options.leave_running)
    give_up = time.monotonic() + PATIENCE
    while is_served(folder):
        if time.monotonic() > give_up:
            raise Broken(
                f"the server of {folder.path} was asked to stop {PATIENCE:.0f} s ago and is still there"
            )
        time.sleep(0.1)
    what = "agents and jobs go on" if options.leave_running else "the run is paused"
    print(f"stopped; {what}. Go on with: palestra run --run {folder.path.name}")
    return 0
