"""The tiny tier: six families on strings of three letters or digits, for a character-level model that learns them in seconds.

The base knows the first three. `wrap` comes at once, `back` and `add` only to those who train all parameters for long enough."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from string import ascii_lowercase

from palestra_kit.tasks.families import Family, Fields


def _word(rng: Random) -> Fields:
    return {"word": "".join(rng.choice(ascii_lowercase) for _ in range(3))}


def _sum(rng: Random) -> Fields:
    return {"a": str(rng.randrange(10)), "b": str(rng.randrange(10))}


def _on_words(name: str, rule: Callable[[str], str]) -> Family:
    return Family(
        name=name,
        draw=_word,
        answer=lambda fields: rule(fields["word"]),
        templates=(f"{name} {{word}}", f"{name}: {{word}}", f"please {name} {{word}}"),
        held_back=(f"please {name}: {{word}}",),
        room=12,
    )


SAY = _on_words("say", lambda word: word)
CAPS = _on_words("caps", str.upper)
LAST = _on_words("last", lambda word: word[-1])
WRAP = _on_words("wrap", lambda word: f"[{word}]")
BACK = _on_words("back", lambda word: word[::-1])
ADD = Family(
    name="add",
    draw=_sum,
    answer=lambda fields: str(int(fields["a"]) + int(fields["b"])),
    templates=("add {a} {b}", "add: {a} {b}", "please add {a} {b}"),
    held_back=("please add: {a} {b}",),
    room=12,
)

FAMILIES = (SAY, CAPS, LAST, WRAP, BACK, ADD)
# What the tiny base model is taught before the competition; the other families are the entrants' to teach.
KNOWN_TO_BASE = (SAY, CAPS, LAST)
