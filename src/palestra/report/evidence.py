"""The rows behind each figure of a page: figures cite their rows, the page's last section lists them all."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from markupsafe import Markup

from palestra.events.public import publish
from palestra.report.facts import Facts, Rows
from palestra.report.visible import visible

TOLD = 3
"""Rows of one entry that are told of in words."""


class Told(msgspec.Struct, frozen=True):
    """A row in words."""

    row: int
    t: str
    corner: str
    text: str


class Cited(msgspec.Struct, frozen=True):
    """What figures lead to: rows as runs of numbers, the first few in words."""

    id: str
    what: str
    rows: str
    many: int
    told: tuple[Told, ...]


class Evidence:
    """Grows while a page is put together; the same rows are cited once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._entries = {one.seq: one for one in facts.entries}
        self._cited: dict[Rows, Cited] = {}

    def cite(self, rows: Iterable[int], what: str) -> str:
        """The address inside the page where these rows are listed; empty without rows."""
        ordered = tuple(sorted(set(rows)))
        if not ordered:
            return ""
        if ordered not in self._cited:
            told = self._tell(ordered)
            place = f"e{len(self._cited) + 1}"
            self._cited[ordered] = Cited(place, what, runs(ordered), len(ordered), told)
        return f"#{self._cited[ordered].id}"

    def link(self, shown: str, rows: Iterable[int], what: str, style: str = "fg") -> Markup:
        """A figure that leads to its rows."""
        ordered = tuple(sorted(set(rows)))
        place = self.cite(ordered, what)
        if not place:
            return Markup('<span class="{}">{}</span>').format(style, shown)
        return Markup('<a class="{}" href="{}" title="{}">{}</a>').format(style, place, hint(ordered), shown)

    def listed(self) -> tuple[Cited, ...]:
        """Everything cited, in the order of the page."""
        return tuple(self._cited.values())

    def _tell(self, rows: Rows) -> tuple[Told, ...]:
        """The first few of which anything can be said in public."""
        found: list[Told] = []
        for entry in (self._entries[row] for row in rows if row in self._entries):
            said = publish(entry, self._facts.roster)
            if said is not None and said.text:
                found.append(Told(said.seq, self._facts.t(said.at), said.corner, visible(said.text)))
            if len(found) == TOLD:
                break
        return tuple(found)


def hint(rows: Rows) -> str:
    """`row 17`, `10 rows, 8 to 56`."""
    return f"row {rows[0]}" if len(rows) == 1 else f"{len(rows):,} rows, {rows[0]} to {rows[-1]}"


def runs(rows: Rows, most: int = 24) -> str:
    """`8, 12, 14 to 22`; of very many only the first and the last are printed."""
    parts: list[list[int]] = []
    for row in rows:
        if parts and row == parts[-1][-1] + 1:
            parts[-1][1:] = [row]
        else:
            parts.append([row])
    said = [f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts]
    if len(said) > most:
        left_out = len(said) - most
        said = [*said[: most // 2], f"… {left_out:,} more …", *said[-most // 2 :]]
    return ", ".join(said)
