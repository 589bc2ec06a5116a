"""`palestra report RUN`: a report of any window, as one HTML file, from the journal alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra.report.summary import summary
from palestra.report.window import Asked
from palestra.runtime.folder import RunFolder
from palestra.runtime.reports import findings_json, read_facts, write_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="the run's folder")
    parser.add_argument(
        "--from", dest="since", default="", metavar="T", help="where the window begins, for example T+0:00"
    )
    parser.add_argument(
        "--to",
        dest="until",
        default="",
        metavar="T",
        help="where it ends, for example T+24:00; the end isn't in it",
    )
    parser.add_argument(
        "--day", type=int, metavar="N", help="the Nth day, counted from 1, in place of --from and --to"
    )
    parser.add_argument(
        "--upto", type=int, metavar="ROW", help="read no row beyond this one: the same report comes out again"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write it (default: reports/ in RUN)"
    )
    parser.add_argument("--json", action="store_true", help="all findings as JSON lines, in place of a page")


def run(options: argparse.Namespace) -> int:
    """Write the page; print the key findings and where it is."""
    folder = RunFolder(options.run_folder)
    facts = read_facts(folder, Asked(options.since, options.until, options.day, options.upto))
    if options.json:
        print(findings_json(facts).decode(), end="")
        return 0
    path = write_page(folder, facts, options.out)
    print(summary(facts))
    print(f"report: {path}")
    return 0
