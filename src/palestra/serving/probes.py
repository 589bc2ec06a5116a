"""What answers look like, whatever they say: answers in, counts of stopped, empty, looping and differing ones out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from palestra.ports import Answer

SHORTEST_LOOP = 24
"""Characters that must repeat before it counts as a loop: short answers may well be `aaa`."""
REPEATS = 4
LONGEST_LOOKED_AT = 20_000
_ITEM = re.compile(r"\W*\d+[.):]")
_WORDS = 40
_GRAM = 4
_FEW = 0.3


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over one set of answers. `differing` is None where there was no base to compare with."""

    probes: int
    stopped: int = 0
    """Ended by themselves, not by the limit (S21, F32)."""
    empty: int = 0
    looping: int = 0
    failed: int = 0
    """No answer came at all."""
    differing: int | None = None


def judge_probes(answers: Sequence[Answer], base_answers: Sequence[Answer] | None = None) -> Judged:
    """Count (S41). An answer that failed is neither empty nor different."""
    given = [answer for answer in answers if answer.finish != "error"]
    return Judged(
        probes=len(answers),
        stopped=sum(answer.finish == "stop" for answer in given),
        empty=sum(not answer.text.strip() for answer in given),
        looping=sum(is_looping(answer.text) for answer in given),
        failed=len(answers) - len(given),
        differing=None if base_answers is None else _count_differing(given, base_answers),
    )


def _count_differing(given: Sequence[Answer], base_answers: Sequence[Answer]) -> int:
    base = {answer.id: answer.text for answer in base_answers if answer.finish != "error"}
    return sum(answer.id in base and answer.text != base[answer.id] for answer in given)


def is_looping(text: str) -> bool:
    """Whether a text goes round in circles: it ends in a repeated piece, or most of its word sequences come again."""
    return _ends_in_a_loop(text[-LONGEST_LOOKED_AT:].strip()) or _repeats_words(text)


def _ends_in_a_loop(text: str) -> bool:
    """The end, half of the text or more, is one piece said at least `REPEATS` times."""
    backwards = text[::-1]
    shares = _shared_prefixes(backwards)
    for period in range(1, len(text) // REPEATS + 1):
        span = period + shares[period] if period < len(text) else 0
        if span >= max(SHORTEST_LOOP, REPEATS * period, len(text) // 2):
            return True
    return False


def _shared_prefixes(text: str) -> list[int]:
    """How long each suffix agrees with the whole text: the Z function, in linear time (Gusfield 1997, 1.3)."""
    shares = [0] * len(text)
    left = right = 0
    for at in range(1, len(text)):
        length = min(right - at, shares[at - left]) if at < right else 0
        while at + length < len(text) and text[length] == text[at + length]:
            length += 1
        shares[at] = length
        if at + length > right:
            left, right = at, at + length
    return shares


def _repeats_words(text: str) -> bool:
    """Loops that number their items or vary a little: few of the sequences of four words are new."""
    words = [word for word in text.split() if not _ITEM.fullmatch(word)]
    if len(words) < _WORDS:
        return False
    grams = [tuple(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)]
    return len(set(grams)) < _FEW * len(grams)
