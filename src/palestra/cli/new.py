"""`palestra new NAME`: a small, whole competition to start from."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from palestra.rules.errors import BadInput

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
            "small letters, digits and '-', at most 41, beginning with a letter or digit",
        )
    if folder.exists():
        raise BadInput("name", options.name, f"a folder that isn't there yet; {folder} is")
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace("@NAME@", name))
    print(f"made {folder}/: read its README.md and competition.toml, then:")
    print(f"  palestra check {folder}")
    print(f"  palestra run {folder}")
    return 0
