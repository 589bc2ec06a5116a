"""`palestra verify RUN`: the record checked from its files alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from palestra.runtime.folder import RunFolder
from palestra.runtime.kept import Check
from palestra.runtime.verify import verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="the checks as JSON lines")


def run(options: argparse.Namespace) -> int:
    """Print each check as it is done; 0 when all are ok."""
    ok = True
    for check in verify(RunFolder(options.run_folder)):
        ok &= check.ok
        _show(check, options.json)
    if not options.json:
        print(
            "ok" if ok else "NOT ok: the record doesn't bear out what it says",
            file=sys.stdout if ok else sys.stderr,
        )
    return 0 if ok else 1


def _show(check: Check, as_json: bool) -> None:
    if as_json:
        import msgspec

        print(msgspec.json.encode(check).decode())
    else:
        print(f"{'ok    ' if check.ok else 'BROKEN'}  {check.name}: {check.found}")
