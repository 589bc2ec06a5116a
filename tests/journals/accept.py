"""Records golden journals: `python -m tests.journals.accept` shows what is missing, `--accept` writes it.

What is recorded stands: code changes, journals of runs that were held don't. A journal that must really be made again is
deleted by hand first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.building import Rehearsal
from tests.journals.lines import FOLDER, write_lines
from tests.journals.recordings import RECORDINGS

from palestra.report.scoreboard import board_bytes


def journal(name: str) -> Path:
    """Where a golden journal lies."""
    return FOLDER / f"{name}.jsonl"


def board(name: str) -> Path:
    """Where the scoreboard lies that it must fold to."""
    return FOLDER / f"{name}.scoreboard.json"


def record(name: str, run: Rehearsal) -> None:
    """Write both."""
    journal(name).write_bytes(write_lines(run.rows))
    board(name).write_bytes(board_bytes(run.state, run.book.catalog))


def main(arguments: list[str]) -> int:
    """0 when nothing is missing."""
    missing = [name for name in RECORDINGS if not (journal(name).exists() and board(name).exists())]
    for name in missing:
        if "--accept" in arguments:
            record(name, RECORDINGS[name]())
            sys.stdout.write(f"recorded {journal(name).name} and {board(name).name}\n")
        else:
            sys.stdout.write(f"{journal(name).name} is not recorded yet; --accept records it\n")
    return 1 if missing and "--accept" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
