"""Where each key of a TOML text stands: text that `tomllib` accepts in, line numbers by key path out.

`tomllib` gives values without places, and an error in a rules file has to name its line. This walks the same grammar
and keeps nothing but the lines. A path is keys and indices: `("models", 1, "input")` is `input` in the second
`[[models]]`. A table that a header names stands on that header's line, one that only a longer header or a dotted key
implies on the line that first does.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

Path = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]+")


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every key path, array element and table in `text`, which `tomllib.loads` must accept."""
    return _Walk(text).whole()


class _Walk:
    """One pass over a text: `at` moves on, `lines` fills."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}
        """How many `[[tables]]` each array has so far."""
        self.ends = [match.start() for match in re.finditer("\n", text)]

    def whole(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip(_BETWEEN) < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.lines

    def _header(self) -> Path:
        line = self._line()
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        keys = self._key()
        self.at += 2 if many else 1
        table: Path = ()
        for key in keys[:-1]:
            table = self._last((*table, key))
            self.lines.setdefault(table, line)
        table = (*table, keys[-1])
        if not many:
            self.lines[table] = line  # named at last, if only implied before
            return table
        self.lines.setdefault(table, line)
        index = self.counts[table] = self.counts.get(table, -1) + 1
        self.lines[(*table, index)] = line
        return (*table, index)

    def _last(self, path: Path) -> Path:
        """The table that a header means by this path: of an array of tables the latest."""
        return (*path, self.counts[path]) if path in self.counts else path

    def _pair(self, table: Path) -> None:
        line = self._line()
        for key in self._key():
            table = (*table, key)
            self.lines.setdefault(table, line)
        self.at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(table)

    def _key(self) -> list[str]:
        """The parts of a dotted key, and `at` behind the blanks after it."""
        parts = []
        while True:
            start = self._skip(_BLANK)
            if self.text[start] in "\"'":
                self._string()
                # The escapes of quoted keys are those of strings: let tomllib read them.
                parts.append(str(tomllib.loads(f"k = {self.text[start : self.at]}")["k"]))
            else:
                self._skip(_BARE_KEY)
                parts.append(self.text[start : self.at])
            if self.text[self._skip(_BLANK)] != ".":
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline(path)
        else:
            self._skip(_BARE_VALUE)

    def _string(self) -> None:
        quote = self.text[self.at]
        fence = 3 * quote if self.text.startswith(3 * quote, self.at) else quote
        self.at += len(fence)
        while not self.text.startswith(fence, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(fence)
        while len(fence) == 3 and self.text.startswith(quote, self.at):
            self.at += 1  # up to two quotes just before the fence belong to the string

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self.text[self._skip(_BETWEEN)] != "]":
            self.lines[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            if self.text[self._skip(_BETWEEN)] == ",":
                self.at += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self.text[self._skip(_BETWEEN)] != "}":
            self._pair(path)
            if self.text[self._skip(_BETWEEN)] == ",":
                self.at += 1
        self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return self.at

    def _line(self) -> int:
        return bisect_right(self.ends, self.at - 1) + 1
