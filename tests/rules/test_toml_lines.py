"""`toml_lines` against documents that know where they put each key, and against the paths that `tomllib` yields."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.toml_lines import Path, key_lines

HARD = "ab1 \"'\\#[]{},.=\n\té☃"


class Document:
    """A TOML text being written with every freedom the grammar gives, and the line of each key in it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.data: dict[str, Any] = {}
        self.lines: dict[Path, int] = {}

    def some(self, most: int) -> range:
        return range(self.draw(st.integers(0, most)))

    def maybe(self) -> bool:
        return self.draw(st.booleans())

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def blank(self) -> None:
        self.text += self.draw(st.sampled_from(["", " ", "\t"]))

    def newlines(self) -> None:
        self.text += self.draw(st.sampled_from(["", "\n", " # [x]\n", "\n\n  # a = '''\n", ' # """\n']))

    def key(self, taken: dict[str, Any]) -> str:
        key = self.draw(st.text("ab-_1", min_size=1, max_size=3) | st.text(HARD, max_size=4))
        while key in taken:
            key += "x"
        return key

    def write_key(self, key: str) -> None:
        bare = key and all(char in "ab-_1x" for char in key)
        ways = [key] if bare else []
        ways.append(json.dumps(key, ensure_ascii=self.maybe()))
        if "'" not in key and "\n" not in key:
            ways.append(f"'{key}'")
        self.text += self.draw(st.sampled_from(ways))

    def dot(self) -> None:
        self.blank()
        self.text += "."
        self.blank()

    def pairs(self, table: dict[str, Any], path: Path, depth: int, *, inline: bool) -> None:
        for n in self.some(3):
            if inline and n:
                self.text += ","
            self.blank()
            self.pair(table, path, depth)
            if not inline:
                self.text += self.draw(st.sampled_from(["\n", "  # '\n", "\n\n"]))

    def pair(self, table: dict[str, Any], path: Path, depth: int) -> None:
        line = self.line
        for _ in self.some(2):  # parts of a dotted key
            key = self.key(table)
            table[key] = table = {}
            path = (*path, key)
            self.lines[path] = line
            self.write_key(key)
            self.dot()
        key = self.key(table)
        self.lines[(*path, key)] = line
        self.write_key(key)
        self.blank()
        self.text += "="
        self.blank()
        table[key] = self.value((*path, key), depth)

    def value(self, path: Path, depth: int) -> Any:
        way = self.draw(
            st.sampled_from(["scalar", "string", "array", "inline"] if depth else ["scalar", "string"])
        )
        if way == "string":
            return self.string()
        if way == "array":
            return self.array(path, depth - 1)
        if way == "inline":
            table: dict[str, Any] = {}
            self.text += "{"
            self.pairs(table, path, depth - 1, inline=True)
            self.text += " }"
            return table
        written = self.draw(
            st.sampled_from(["1", "-0.5e3", "true", "2026-01-02 03:04:05Z", "07:32:00", "0xff", "nan"])
        )
        self.text += written
        return tomllib.loads(f"k = {written}")["k"]

    def array(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        self.text += "["
        for n in self.some(3):
            if n:
                self.text += ","
            self.newlines()
            self.lines[(*path, n)] = self.line
            items.append(self.value((*path, n), depth))
            self.newlines()
        if items and self.maybe():
            self.text += ","
            self.newlines()
        self.text += "]"
        return items

    def string(self) -> str:
        text = self.draw(st.text(HARD, max_size=8))
        escaped = text.replace("\\", "\\\\")
        ways = [json.dumps(text), '"""\n' + escaped.replace('"""', '""\\"') + '"""']
        if "'''" not in text:
            ways.append("'''\n" + text + "'''")
        if "'" not in text and "\n" not in text:
            ways.append(f"'{text}'")
        self.text += self.draw(st.sampled_from(ways))
        return text

    def header(self, path: list[str], fence: str) -> None:
        self.text += fence[: len(fence) // 2]
        for n, key in enumerate(path):
            if n:
                self.dot()
            self.blank()
            self.write_key(key)
        self.blank()
        self.text += fence[len(fence) // 2 :] + self.draw(st.sampled_from(["\n", " # ]\n"]))

    def tables(self, table: dict[str, Any], keys: list[str], path: Path, depth: int) -> None:
        """Headers below `table`; keys are as headers write them, path also has the indices."""
        for _ in self.some(2):
            key = self.key(table)
            way = self.draw(st.sampled_from(["table", "array", "implied", "later"]))
            if way == "array":
                rows: list[dict[str, Any]] = []
                table[key] = rows
                self.lines[(*path, key)] = self.line
                for n in range(self.draw(st.integers(1, 3))):
                    rows.append({})
                    self.lines[(*path, key, n)] = self.line
                    self.header([*keys, key], "[[]]")
                    self.body(rows[n], [*keys, key], (*path, key, n), depth - 1)
                continue
            inner: dict[str, Any] = {}
            table[key] = inner
            if way in ("implied", "later"):
                sub = self.key(inner)
                deep: dict[str, Any] = {}
                inner[sub] = deep
                self.lines[(*path, key)] = self.lines[(*path, key, sub)] = self.line
                self.header([*keys, key, sub], "[]")
                self.body(deep, [*keys, key, sub], (*path, key, sub), depth - 1)
            if way in ("table", "later"):
                self.lines[(*path, key)] = self.line
                self.header([*keys, key], "[]")
                self.body(inner, [*keys, key], (*path, key), depth - 1)

    def body(self, table: dict[str, Any], keys: list[str], path: Path, depth: int) -> None:
        self.pairs(table, path, 2, inline=False)
        if depth > 0:
            self.tables(table, keys, path, depth)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    document = Document(draw)
    document.body(document.data, [], (), 2)
    if draw(st.booleans()):
        document.text = document.text.rstrip("\n")
    return document


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every key path and array index that tomllib yields."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


@given(documents())
def test_every_path_that_tomllib_yields_has_the_line_on_which_its_key_stands(document: Document) -> None:
    read = tomllib.loads(document.text)
    assert repr(read) == repr(tomllib.loads(document.text.replace("\n", "\r\n")))
    assert set(paths(read)) == set(paths(document.data)), document.text
    assert key_lines(document.text) == document.lines, document.text
    assert key_lines(document.text.replace("\n", "\r\n")) == document.lines


@given(st.text("a.=\"[]{},# \n'1", max_size=30))
def test_of_any_text_that_tomllib_accepts_exactly_its_paths_are_found(text: str) -> None:
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = key_lines(text)
    assert set(found) == set(paths(read))
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1", ("a",), 1),
        ("\n\n'a b'.c = 1\n", ("a b", "c"), 3),
        ('"\\u0061" = 1', ("a",), 1),
        ('x = """\n[a]\n"""""\ny = 1', ("y",), 4),
        ("x = '''\n# '' '''''\ny = 1", ("y",), 3),
        ('x = """\\\n  a\\""" b"""\ny = 1', ("y",), 3),
        ("x = [ # [\n1,\n 'y', {a = [\n2]}]\nz = 0", ("x", 2, "a", 0), 4),
        ("[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]\n[a.b.c]\nd = 1", ("a", 1, "b", 0, "c", "d"), 6),
        ("[a.b]\n[a]\n", ("a",), 2),
        ("[a.b]\n[a.c]\n", ("a",), 1),
    ],
)
def test_a_key_is_found_behind_what_looks_like_others(text: str, path: Path, line: int) -> None:
    assert key_lines(text)[path] == line
