"""Options that verbs share: declared on a parser, read back as plain values."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from palestra.client.errors import BadUsage


def declare_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def declare_request(parser: argparse.ArgumentParser) -> None:
    declare_json(parser)
    parser.add_argument(
        "--request", metavar="KEY", default="", help="8 to 64 of A-Z a-z 0-9 _ -: the same key is done once"
    )


def request_key(options: argparse.Namespace) -> str:
    """The key that was given, or a new one: retries of this command carry the same."""
    return str(options.request) or new_key()


def new_key() -> str:
    """A request key nobody else has made."""
    return os.urandom(12).hex()  # what `secrets` does, without all that it loads


def below_home(path: str, what: str) -> str:
    """A path relative to the corner's home, as the arena wants it; symbolic links are followed first."""
    home = Path(os.environ.get("HOME") or ".").resolve()
    place = Path(path).resolve()
    if not place.is_relative_to(home):
        raise BadUsage(f"{what} {path!r} is outside your home ({home}); the arena sees only what is below it")
    return place.relative_to(home).as_posix()


def seconds(text: str) -> float:
    """How long this client shall wait: `90s`, `5m`, `1h30m`. All other durations are the arena's to read."""
    if not text or not re.fullmatch(r"(\d+h)?(\d+m)?(\d+s)?", text):
        raise BadUsage(f"--wait {text!r} can't be read; write a number with its unit: 90s, 5m, 1h30m")
    return float(
        sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", text))
    )
