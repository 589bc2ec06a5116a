"""`palestra pause RUN`: no calls and no starts until resumed."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra.cli.door import call
from palestra.runtime.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument(
        "run_folder", metavar="RUN", type=Path, help="the run's folder, for example runs/mine"
    )
    parser.add_argument("--reason", default="", help="why; it goes on the record")


def run(options: argparse.Namespace) -> int:
    """Ask the run's server."""
    call(RunFolder(options.run_folder), "POST", "/pause", reason=options.reason)
    print("paused: no calls and no starts; running jobs go on and pay. Go on with `palestra resume`.")
    return 0
