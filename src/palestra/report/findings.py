"""What a finding is, and which come first: findings of all detectors in, the ones worth telling out, in order. Pure.

A sentence is a template with figures in braces, so that whoever words it anew can't change a number. Each figure knows
the rows of the record that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal

import msgspec

from palestra.report.facts import Rows

Unit = Literal[
    "count", "moment", "microseconds", "nano-dollars", "GPU-microseconds", "bytes", "share", "ratio", "text"
]
PER_CORNER = 2
"""Key findings that name the same corner."""
SHOWN = 6
BRACE = "brace"
"""The one place in a template that isn't a figure's: an opening brace."""
_PLACE = re.compile(r"\{(\w+)\}")


class Figure(msgspec.Struct, frozen=True):
    """One figure: exact in its unit, and as it is shown. A share or ratio is `amount` of `whole`."""

    name: str
    unit: Unit
    amount: int
    shown: str
    rows: Rows
    whole: int = 1


class Piece(msgspec.Struct, frozen=True):
    """Part of a sentence: plain words, or a figure with its rows."""

    text: str
    figure: Figure | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector saw. `severity` 1 to 5, `consequence` 1 (a remark) to 4 (decides the result)."""

    kind: str
    version: int
    about: str
    """What sets it apart from others of its kind: a corner, a job, a nomination."""
    corners: tuple[str, ...]
    severity: int
    consequence: int
    positive: bool = False
    big: str
    """The name of the figure that stands large on its card."""
    title: str
    """A few words, without a full stop."""
    head: str
    """For the headline: one short sentence."""
    said: str
    """One or two sentences."""
    figures: tuple[Figure, ...]

    @property
    def id(self) -> str:
        """Stable as long as the record is."""
        return f"{self.kind}:{self.about}"

    @property
    def rows(self) -> Rows:
        """All rows that its figures come from."""
        return tuple(sorted({row for figure in self.figures for row in figure.rows}))

    def figure(self, name: str) -> Figure:
        """One of its figures."""
        return next(figure for figure in self.figures if figure.name == name)

    def pieces(self, template: str) -> tuple[Piece, ...]:
        """A template with its figures in place."""
        found: list[Piece] = []
        for number, part in enumerate(_PLACE.split(template)):
            if part == BRACE and number % 2:
                found.append(Piece("{"))
            elif number % 2:
                figure = self.figure(part)
                found.append(Piece(figure.shown, figure))
            elif part:
                found.append(Piece(part))
        return tuple(found)

    def text(self, template: str) -> str:
        """A template as plain text."""
        return "".join(piece.text for piece in self.pieces(template))


def escape(words: str) -> str:
    """Words that aren't ours, such as names, fit to stand in a template: no brace in them opens a figure."""
    return words.replace("{", f"{{{BRACE}}}")


def rank(findings: Iterable[Finding], corners: int) -> tuple[Finding, ...]:
    """All of them, most telling first: severity x consequence x rarity, then the earlier row.

    Rarity is how many corners there are for each one with a finding of this kind: what happens to all is no news.
    """
    every = list(findings)
    spread = {kind: _corners_with(every, kind) for kind in {one.kind for one in every}}

    def weight(one: Finding) -> Fraction:
        return one.severity * one.consequence * Fraction(max(1, corners), max(1, spread[one.kind]))

    return tuple(sorted(every, key=lambda one: (-weight(one), one.rows[:1], one.id)))


def choose(ranked: Sequence[Finding], most: int = SHOWN) -> tuple[Finding, ...]:
    """The key findings: at most two that name the same corner, not two of one kind; a good one among them if there is any."""
    chosen: list[Finding] = []
    for one in ranked:
        full = any(_naming(chosen, corner) >= PER_CORNER for corner in one.corners)
        again = any(other.kind == one.kind and other.corners == one.corners for other in chosen)
        if not full and not again and len(chosen) < most:
            chosen.append(one)
    good = next((one for one in ranked if one.positive), None)
    if good is not None and not any(one.positive for one in chosen):
        for corner in good.corners:
            while _naming(chosen, corner) >= PER_CORNER:
                chosen.remove([one for one in chosen if corner in one.corners][-1])
        chosen = [*chosen[: most - 1], good]
    return tuple(chosen)


def _corners_with(findings: Sequence[Finding], kind: str) -> int:
    return len({corner for one in findings if one.kind == kind for corner in one.corners})


def _naming(findings: Sequence[Finding], corner: str) -> int:
    return sum(corner in one.corners for one in findings)
