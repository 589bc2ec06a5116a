"""`palestra VERB ...`: finds the verb's module and runs it; errors become one sentence and an exit code."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # said in a sentence, where an older Python would print a traceback
    sys.exit(f"palestra needs Python 3.11 or newer; this is {sys.version.split()[0]}")

import argparse
import importlib
import os
from collections.abc import Callable, Sequence
from typing import cast

from palestra import __version__
from palestra.rules.errors import Corrupt, PalestraError

VERBS = {
    "new": "make a competition's folder from the template",
    "check": "tell everything that is wrong or missing before a run",
    "run": "open a run, or go on with one",
    "status": "where a run stands",
    "entrant": "add an entrant to a run, take one out, start one anew, give one a new token",
    "pause": "no calls and no starts until resumed; running jobs go on",
    "resume": "go on after a pause",
    "stop": "stop the server; agents and jobs stop too, and go on with the next `palestra run`",
    "end": "end the running stage now, by rule",
    "report": "a report of any window, as one HTML file, from the journal alone",
    "verify": "compute chain, ledgers, scores and scoreboard again from a run's files",
}
"""Every verb, and what it does; its module is `palestra.cli.VERB` with `add_arguments` and `run`."""

OK, FAILED, FATAL, INTERRUPTED = 0, 1, 75, 130
"""Exit codes; argparse's own for bad usage is 2. 75: nothing is lost, and running it again goes on."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Parse and do; returns the exit code."""
    try:
        options = build_parser(argv[0] if argv else "").parse_args(argv)
        code = cast("Callable[[argparse.Namespace], int]", options.run)(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (PalestraError, ModuleNotFoundError, OSError) as error:
        say(error)
        return FATAL if isinstance(error, Corrupt) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def say(error: Exception) -> None:
    """One sentence of it, to the person at the terminal."""
    said = str(error)
    if isinstance(error, Corrupt):  # no `match` here: an older Python must be able to read this file
        said = f"the record contradicts itself, so nothing was done: {error}"
    elif isinstance(error, ModuleNotFoundError):
        said = f"the Python package {error.name!r} is missing; install palestra with its dependencies again"
    elif isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"palestra: {said}", file=sys.stderr)


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
