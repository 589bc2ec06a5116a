"""`palestra resume RUN`: go on after a pause."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra.cli.door import call
from palestra.runtime.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")


def run(options: argparse.Namespace) -> int:
    """Ask the run's server."""
    call(RunFolder(options.run_folder), "POST", "/resume")
    print("resumed")
    return 0
