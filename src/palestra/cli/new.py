"""`palestra new NAME`: a small, whole competition to start from."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from palestra.cli.naming import as_called
from palestra.rules.errors import BadInput, Broken

TEMPLATE = Path(__file__).with_name("template")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("name", help="the competition's name, also the folder that is made")


def run(options: argparse.Namespace) -> int:
    """Copy the template, with the name filled in."""
    name = Path(options.name).name
    folder = Path(options.name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
        raise BadInput(
            "name",
            options.name,
            "a competition's name has small letters, digits and '-', at most 41, and begins with a letter or digit",
        )
    if folder.exists():
        raise Broken(f"{folder} is there already; nothing was changed", retry=False)
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace("@NAME@", name))
    print(f"made {folder}/: read its README.md and competition.toml, then:")
    print(f"  {as_called()} check {folder}")
    print(f"  {as_called()} run {folder}")
    return 0
