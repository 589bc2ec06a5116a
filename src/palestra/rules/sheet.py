"""A rules file being read: text in; its values, where each stands, and every fault found, out."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from typing import Any

import msgspec

from palestra.rules.errors import PalestraError
from palestra.rules.toml_lines import Path, key_lines

_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SECRET = re.compile(r"key|secret|token|passw|credential", re.IGNORECASE)
_ADDRESS = re.compile(r"://.*[@?]")
"""An address with a name or a query, either of which may hold a key."""
LONGEST_SHOWN = 60


class Fault(msgspec.Struct, frozen=True):
    """One thing wrong with a rules file, and what would be right; `str()` of it is one line fit to be shown."""

    file: str
    line: int
    key: str
    value: str
    """As TOML would have it, shortened, never a secret; empty when nothing is there."""
    right: str

    def __str__(self) -> str:
        said = f" = {self.value}" if self.value else ""
        return f"{self.file}:{self.line}: {self.key}{said}: {self.right}"


class BadCompetition(PalestraError):
    """A rules file with faults: all of them at once, in the file's order."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class Sheet:
    """The file, and the faults so far. Paths are those of `key_lines`."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
            self.lines = key_lines(text)
        except tomllib.TOMLDecodeError as error:
            raise BadCompetition((_syntax_fault(text, file, str(error)),)) from None
        except (RecursionError, ValueError):  # brackets in brackets, or a number of thousands of digits
            fault = Fault(
                file, 1, "syntax", "", "not TOML: nested too deep, or a number too long, to be read"
            )
            raise BadCompetition((fault,)) from None

    def line(self, path: Path) -> int:
        """The line of a key; of one that isn't there, its table's."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def value(self, path: Path) -> Any:
        """What the file says there, or None."""
        found: Any = self.data
        for part in path:
            if isinstance(found, dict):
                found = found.get(str(part))
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def fault(self, path: Path, right: str) -> None:
        """Note that what stands at `path`, or its absence, is wrong."""
        value = self.value(path)
        table = isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(part, dict) for part in value)
        )
        shown = (
            "" if value is None or table else "(not shown)" if is_secret(path, value) else show_value(value)
        )
        self.faults.append(Fault(self.file, self.line(path), show_path(path), shown, right))

    def finish(self) -> None:
        """Raise `BadCompetition` if anything was wrong."""
        if self.faults:
            raise BadCompetition(tuple(sorted(self.faults, key=lambda fault: fault.line)))


def _syntax_fault(text: str, file: str, message: str) -> Fault:
    place = _PLACE.search(message)
    lines = text.splitlines() or [""]
    line = int(place[1]) if place and place[1] else len(lines)
    right = f"not TOML: {_PLACE.sub('', message)}"
    return Fault(file, line, "syntax", "", right[:200])


def is_secret(path: Path, value: object) -> bool:
    """Whether a value may be or hold a key, so that no message may repeat it."""
    last = next((part for part in reversed(path) if isinstance(part, str)), "")
    return bool(_SECRET.search(last)) or (isinstance(value, str) and bool(_ADDRESS.search(value)))


def show_path(path: Path) -> str:
    """`models[1].input`, with odd keys in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else _quoted(part))
    return text or "the file"


def show_value(value: object) -> str:
    """A value as TOML writes it, shortened to one line."""
    shown = _written(value)
    return shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 4] + " ..."


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value[: 2 * LONGEST_SHOWN])
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(_written(item) for item in value[:LONGEST_SHOWN])}]"
        case dict():
            return "{...}" if value else "{}"
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
