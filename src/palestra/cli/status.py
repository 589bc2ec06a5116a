"""`palestra status RUN`: where a run stands; asks its server, or folds the journal when none is up."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from palestra.cli.door import call, how_to_go_on
from palestra.cli.naming import as_called
from palestra.events.codec import read_entry
from palestra.journal.tail import Tail
from palestra.report.board_text import board_text
from palestra.report.scoreboard import Scoreboard, scoreboard
from palestra.report.visible import visible
from palestra.rules.errors import Broken
from palestra.runtime.folder import RunFolder
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the scoreboard, what waits and why, and open alarms."""
    folder = RunFolder(options.run_folder)
    try:
        found = call(folder, "GET", "/status")
    except Broken:
        found = _folded(folder)
    if options.json:
        print(msgspec.json.encode(found).decode())
        return 0
    print(board_text(msgspec.convert(found["scoreboard"], Scoreboard)))
    if found["paused"]:
        print(f"paused by {found['paused_by']}")
    for job in found["jobs"]:
        wait = job["wait"]["sentence"] if job["wait"] else job["state"]
        print(visible(f"{job['corner']} {job['id']} {job['name']}: {wait}"))
    for alarm, text in found["alarms"].items():
        print(visible(f"ALARM {alarm}: {text}"))
    over = found["scoreboard"]["stage"] == "results"
    if over:
        print(f"this run is over; its report: {as_called()} report {options.run_folder}")
    elif not found["served"]:
        print(f"no server is up; go on with: {how_to_go_on(folder)}")
    return 0


def _folded(folder: RunFolder) -> dict[str, Any]:
    folder.read()
    state, cards = State(), Catalog()
    tail = Tail(folder.path)
    for row in tail.rows():
        entry = read_entry(row)
        fold.fold(state, entry)
        catalog.fold(cards, entry)
    tail.close()
    if state.opened is None:
        raise Broken(f"{folder.journal} has no rows, so there is no run to tell of", retry=False)
    board = msgspec.to_builtins(scoreboard(state, cards))
    paused, by = state.clock.paused, state.clock.paused_by
    return {
        "scoreboard": board,
        "paused": paused,
        "paused_by": by,
        "jobs": [],
        "alarms": state.alarms,
        "served": False,
    }
