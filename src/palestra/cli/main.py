"""`palestra VERB ...`: finds the verb's module and runs it; errors become one sentence and an exit code."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # said in a sentence, where an older Python would print a traceback
    sys.exit(f"palestra needs Python 3.11 or newer; this is {sys.version.split()[0]}")

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import cast

from palestra import __version__
from palestra.rules.errors import Corrupt, PalestraError

VERBS = {
    "new": "make a competition's folder from the template",
    "check": "tell everything that is wrong or missing before a run",
    "run": "open a run, or go on with one",
    "status": "where a run stands",
    "pause": "no calls and no starts until resumed; running jobs go on",
    "resume": "go on after a pause",
    "stop": "stop the server; agents and jobs stop too, and go on with the next `palestra run`",
    "end": "end the running stage now, by rule",
    "verify": "compute chain, ledgers, scores and scoreboard again from a run's files",
}
"""Every verb, and what it does; its module is `palestra.cli.VERB` with `add_arguments` and `run`."""

OK, FAILED, USAGE, FATAL = 0, 1, 2, 75


def main(argv: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Parse and do; returns the exit code."""
    parser = build_parser(argv[0] if argv else "")
    options = parser.parse_args(argv)
    try:
        return cast("Callable[[argparse.Namespace], int]", options.run)(options)
    except Corrupt as error:
        print(f"palestra: the record contradicts itself, so nothing was done: {error}", file=sys.stderr)
        return FATAL
    except PalestraError as error:
        print(f"palestra: {error}", file=sys.stderr)
        return FAILED
    except ModuleNotFoundError as error:
        print(
            f"palestra: the Python package {error.name!r} is missing; install palestra with its dependencies again",
            file=sys.stderr,
        )
        return FAILED
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"palestra: {place}{error.strerror or error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def build_parser(verb: str = "") -> argparse.ArgumentParser:
    """The whole command line; only the verb that is called has its module loaded. With `*`, all have."""
    parser = argparse.ArgumentParser(
        prog="palestra", description="Runs AI R&D competitions, on one append-only record."
    )
    parser.add_argument("--version", action="version", version=f"palestra {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs")
    for name, meaning in VERBS.items():
        one = verbs.add_parser(name, help=meaning, description=meaning[0].upper() + meaning[1:] + ".")
        if verb in (name, "*"):
            module = importlib.import_module(f"palestra.cli.{name}")
            module.add_arguments(one)
            one.set_defaults(run=module.run)
    return parser
