"""The reference page of both commands: parsers in, Markdown out, so that the page can't say other than `--help` does."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from palestra.cli.main import build_parser
from palestra.client.arena import VERBS
from palestra.client.arena import build_parser as build_verb

HEAD = """# Commands

Written by `palestra.cli.reference` from the commands' own help; every verb says the same with `--help`.
"""


def reference() -> str:
    """The page, as `docs/reference/commands.md` has it."""
    os.environ["COLUMNS"] = "100"  # argparse wraps help to the terminal, and the page has none
    parts = [HEAD, "## `palestra`: the organiser's\n", *_sections(build_parser("*"))]
    parts.append("## `arena`: the entrant's, inside its corner\n")
    for name in VERBS:
        parts += _section(build_verb(name))
    return "\n".join(parts)


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _section(one)
                yield from _sections(one)


def _section(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### `{parser.prog}`\n"
    yield f"```text\n{parser.format_help().rstrip()}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
