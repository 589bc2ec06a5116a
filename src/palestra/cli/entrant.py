"""`palestra entrant add|remove|restart|rotate-token`: who competes, changed while a run goes on."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra.cli.door import call
from palestra.runtime.folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
    add = acts.add_parser(
        "add", help="announce an entrant that joins: same allowances, own start, common end"
    )
    _run_folder(add)
    add.add_argument("--name", required=True, help="its name; under an alias it stays in the run's secrets")
    add.add_argument("--lab", default="", help="whose it is")
    add.add_argument("--alias", default="", help="shown everywhere in place of name and lab")
    add.add_argument("--harness", default="house", help="house, or command (default: house)")
    add.add_argument("--model", default="", help="a model of this competition, for the house harness")
    add.add_argument(
        "--start", default="", metavar="DURATION", help="from now, for example 10m (default: at once)"
    )
    add.add_argument(
        "--command", nargs=argparse.REMAINDER, default=[], help="last: the program of the command harness"
    )
    for act, meaning in (
        ("remove", "take an entrant out: its processes end, and it is not judged"),
        ("restart", "start its agent anew, and forgive what failed before"),
        ("rotate-token", "give its corner a new token; its agent is started again with it"),
    ):
        one = acts.add_parser(act, help=meaning)
        _run_folder(one)
        one.add_argument("corner", help="the corner's letter")
        one.add_argument("--reason", default="", help="why; it goes on the record")


def _run_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")


def run(options: argparse.Namespace) -> int:
    """Ask the run's server."""
    folder = RunFolder(options.run_folder)
    if options.act == "add":
        done = call(
            folder, "POST", "/entrants",
            name=options.name, lab=options.lab, alias=options.alias, harness=options.harness, model=options.model,
            starts_in=options.start, command=options.command,
        )  # fmt: skip
        print(f"announced: corner {done['corner']} is {done['name']}")
        return 0
    call(folder, "POST", f"/entrants/{options.corner}/{options.act}", reason=options.reason)
    said = {
        "remove": "is taken out",
        "restart": "is started anew",
        "rotate-token": "has a new token, and its agent is started again",
    }
    print(f"corner {options.corner} {said[options.act]}")
    return 0
