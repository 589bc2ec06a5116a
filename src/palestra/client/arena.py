"""The `arena` command: a command line in, one verb's module loaded and run, an exit code out.

Exit codes: 0 done; 1 refused, or what was waited for ended badly; 2 bad usage; 3 no answer from the server.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import NamedTuple, NoReturn

from palestra.client.errors import ArenaError, BadUsage, Refused


class Verb(NamedTuple):
    """Where a verb lives, and its line in the help. Its module has `declare_VERB(parser)` and `VERB(options)`."""

    module: str
    help: str


VERBS = {
    "status": Verb("standing", "time, allowances, jobs and nomination: where you stand"),
    "rules": Verb("standing", "the task, the stages, the limits"),
    "submit": Verb("jobs", "queue a job: a command or a script"),
    "jobs": Verb("jobs", "your jobs, or one of them; can wait for its end"),
    "logs": Verb("logs", "what a job has printed, byte for byte"),
    "cancel": Verb("jobs", "take a job out of the queue, or stop it"),
    "seal": Verb("checkpoints", "freeze a checkpoint's folder with a manifest"),
    "nominate": Verb("checkpoints", "put a checkpoint forward to be judged, with its answer settings"),
    "finish": Verb("finishing", "done for good: your nomination stands"),
    "house": Verb("house", "the house harness: ask the model, run its commands, repeat"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0 if words else 2
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        code = _run(words[0], words[1:])
        sys.stdout.flush()
        return code
    except ArenaError as error:
        return _tell(error, as_json)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _run(name: str, words: list[str]) -> int:
    if name not in VERBS:
        raise BadUsage(f"{name!r} is not one of: {', '.join(VERBS)}")
    module = importlib.import_module(f"palestra.client.{VERBS[name].module}")
    parser = build_parser(name)
    if name == "submit" and "--" in words:  # the job's own command line is not ours to read
        at = words.index("--")
        options = parser.parse_args(words[:at])
        options.argv = words[at + 1 :]
    else:
        options = parser.parse_args(words)
    code = getattr(module, name)(options)
    assert isinstance(code, int)
    return code


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors of ours."""

    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"{message}. See: {self.prog} --help")


def build_parser(name: str) -> argparse.ArgumentParser:
    """One verb's parser; the reference pages are made from it too."""
    verb = VERBS[name]
    parser = _Parser(
        prog=f"arena {name}", description=verb.help[0].upper() + verb.help[1:] + ".", allow_abbrev=False
    )
    getattr(importlib.import_module(f"palestra.client.{verb.module}"), f"declare_{name}")(parser)
    return parser


def help_text() -> str:
    """What `arena --help` prints, without loading any verb."""
    lines = [f"  {name:<10}{verb.help}" for name, verb in VERBS.items()]
    return "\n".join(
        [
            "usage: arena VERB [options]        arena VERB --help tells all about one verb",
            "",
            *lines,
            "",
            "Every verb takes --json; every verb that changes something takes --request KEY:",
            "the same key is the same request, done once, however often it is sent.",
            "Exit codes: 0 done, 1 refused, 2 bad usage, 3 no answer from the server.",
        ]
    )


def _tell(error: ArenaError, as_json: bool) -> int:
    from palestra.client.show import print_json, wrapped

    if as_json:
        print_json(error.as_json())
    said = str(error)
    if isinstance(error, Refused):
        given = f"{error.field} {error.value!r}: " if error.field and error.field not in said else ""
        said = f"refused ({error.code}): {given}{said}"
    print(wrapped(f"arena: {said}", "  "), file=sys.stderr)
    return error.exit_code


def entry() -> None:
    """Where the zipapp begins."""
    sys.exit(main())
