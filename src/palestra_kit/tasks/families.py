"""What a task family is: fields drawn at random, templates that turn fields into a prompt, and the rule for the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

Fields = Mapping[str, str]

# How a field looks inside a prompt, by its name in the template: enough to read the fields back out of a prompt.
PATTERNS = {
    "word": r"[A-Za-z]+",
    "words": r"[A-Za-z]+(?: [A-Za-z]+)+",
    "list": r"[A-Za-z0-9]+(?:, [A-Za-z0-9]+)+",
    "name": r"[A-Z][a-z]+",
    "key": r"[a-z]+",
    "key2": r"[a-z]+",
    "a": r"\d+",
    "b": r"\d+",
    "nth": r"first|second|third|fourth",
    "thing": r"[a-z]+",
}


class Item(NamedTuple):
    """One question with its right answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Family:
    """`templates` fill the pool; `held_back` ones appear in the public dev set only. `room` is the token budget of an answer."""

    name: str
    draw: Callable[[Random], Fields]
    answer: Callable[[Fields], str]
    templates: tuple[str, ...]
    held_back: tuple[str, ...]
    room: int

    def make(self, rng: Random, templates: Sequence[str] | None = None) -> Item:
        """A new item; `templates` replaces the family's own wordings (the exam brings its own)."""
        fields = self.draw(rng)
        template = rng.choice(list(templates or self.templates))
        return Item(template.format(**fields), self.answer(fields))

    def solve(self, prompt: str) -> str | None:
        """The right answer, worked out from a prompt in exactly one of the known wordings (but for case); None for any other prompt."""
        for template in self.templates + self.held_back:
            match = _reader(template).fullmatch(prompt.strip())
            if match is not None:
                return self.answer(match.groupdict())
        return None


@cache
def _reader(template: str) -> re.Pattern[str]:
    """A pattern that reads a template's fields back; the wording itself may differ in case."""
    pieces = []
    for at, piece in enumerate(re.split(r"\{(\w+)\}", template)):
        pieces.append(f"(?P<{piece}>{PATTERNS[piece]})" if at % 2 else f"(?i:{re.escape(piece)})")
    return re.compile("".join(pieces))
