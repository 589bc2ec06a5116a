"""How each kind of value in a rules file is read: what TOML gave in, what is meant out, `BadInput` with a hint for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import msgspec

from palestra.rules.competition import AT_RUN
from palestra.rules.errors import BadInput
from palestra.rules.quantities import LONGEST, read_dollars, read_duration, read_size
from palestra.rules.times import EPOCH
from palestra.rules.units import Moment

MOST_GPUS_AT_ONCE = 1_024
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[^\s?#@]*)?")
_PATH = re.compile(r"(?!~)[^\x00-\x1f\x7f-\x9f\\]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Kind(msgspec.Struct, frozen=True):
    """A kind of value: what the reference page calls it, and how it is read."""

    label: str
    read: Callable[[object, str], Any]


def _text(longest: int, *, lines: bool = False) -> Callable[[object, str], str]:
    def read(value: object, field: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise BadInput(field, value, "write text in quotes, not empty")
        if len(value.encode()) > longest:
            raise BadInput(field, value, f"at most {longest:,} bytes; longer words belong in terms.md")
        if _CONTROL.search(re.sub(r"[\n\t]", "", value) if lines else value):
            raise BadInput(field, value, "text without control characters" if lines else "text on one line")
        return value

    return read


def _pattern(pattern: re.Pattern[str], right: str) -> Callable[[object, str], str]:
    def read(value: object, field: str) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise BadInput(field, value, right)
        return value

    return read


def _whole(least: int, most: int) -> Callable[[object, str], int]:
    def read(value: object, field: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadInput(field, value, f"a whole number from {least:,} to {most:,}, without quotes")
        return value

    return read


def _yes(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(field, value, "true or false, without quotes")
    return value


def _instant(value: object, field: str) -> Moment:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Moment((value - EPOCH) // timedelta(microseconds=1))
    example = "2026-12-01T17:00:00+02:00"
    if isinstance(value, datetime):
        right = f"add the offset from UTC, for example {value.isoformat()}Z or {value.isoformat()}+02:00"
    elif isinstance(value, date | time):
        right = f"a date and a time with its offset from UTC, for example {example}"
    elif isinstance(value, str):
        right = f"an instant without quotes and with its offset from UTC, for example {example}"
    else:
        right = f"an instant with its offset from UTC, for example {example}"
    raise BadInput(field, value, right)


def _start(value: object, field: str) -> Moment | None:
    """None: at the first `palestra run`."""
    if value == AT_RUN:
        return None
    try:
        return _instant(value, field)
    except BadInput as error:
        raise BadInput(field, value, f'{error.right}; or "{AT_RUN}"') from None


def _path(value: object, field: str) -> str:
    """A path as written: absolute, or relative and inside the competition's folder."""
    if isinstance(value, str) and value.startswith("/") and _PATH.fullmatch(value):
        return value
    return _inside(value, field)


def _inside(value: object, field: str) -> str:
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise BadInput(field, value, "a path in quotes, with / between its parts and no ~")
    if value.startswith("/"):
        raise BadInput(field, value, "a path relative to this file's folder")
    if ".." in value.split("/"):
        raise BadInput(field, value, "a relative path stays inside this file's folder: no '..'")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts:
        raise BadInput(field, value, "a path below this file's folder, not the folder itself")
    return "/".join(parts)


def _url(value: object, field: str) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        right = 'an address without name, key or query in it, for example "http://127.0.0.1:8000/v1"'
        raise BadInput(field, value, right)
    return value.rstrip("/")


def _argv(value: object, field: str) -> tuple[str, ...]:
    right = 'a list of words, for example ["python", "program.py"]'
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise BadInput(field, value, right)
    if not value[0] or any("\x00" in word for word in value):
        raise BadInput(field, value, f"{right}; the first names a program")
    return tuple(value)


def _arguments(value: object, field: str) -> tuple[str, ...]:
    return () if value == [] else _argv(["program", *value] if isinstance(value, list) else value, field)[1:]


def _gpu_time(value: object, field: str) -> int:
    return read_duration(value, field, longest=LONGEST * MOST_GPUS_AT_ONCE)


def one_of(*words: str) -> Kind:
    """A choice among a few words."""
    listed = " or ".join(f'"{word}"' for word in words)
    return Kind(listed, _pattern(re.compile("|".join(map(re.escape, words))), listed))


def whole(least: int, most: int) -> Kind:
    """A whole number within bounds."""
    return Kind(f"whole number, {least:,} to {most:,}", _whole(least, most))


_SLUG_RIGHT = "small letters, digits and dashes, at most 64, for example first-arena"
SLUG = Kind("name: small letters, digits, dashes", _pattern(_SLUG, _SLUG_RIGHT))
MODEL_NAME = Kind("model name", _pattern(_MODEL, "letters, digits and any of . _ : / @ + -, at most 128"))
VARIABLE = Kind("environment variable", _pattern(_ENVIRONMENT, "the variable's name, for example LAB_KEY"))
LABEL = Kind("text on one line", _text(120))
TASK = Kind("text, at most 2 KiB", _text(2_048, lines=True))
YES = Kind("true or false", _yes)
INSTANT = Kind("instant with offset", _instant)
START = Kind(f'instant with offset, or "{AT_RUN}"', _start)
DURATION = Kind('duration, for example "2h30m"', read_duration)
GPU_TIME = Kind('GPU-time (GPUs x time), for example "100h"', _gpu_time)
SIZE = Kind('size, for example "64GiB"', read_size)
DOLLARS = Kind('dollars, for example "$300"', read_dollars)
PRICE = Kind('dollars per million tokens, for example "$1.25"', read_dollars)
PATH = Kind("path, absolute or inside this file's folder", _path)
INSIDE = Kind("path inside this file's folder", _inside)
URL = Kind("http(s) address", _url)
ARGV = Kind("list of words: program and arguments", _argv)
ARGUMENTS = Kind("list of words", _arguments)
