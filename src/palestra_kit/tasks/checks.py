"""Compares a given answer with the right one: strict (nothing but the answer) and lenient (the answer is in there)."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

# Longer texts are cut before the lenient search: a right answer has at most a hundred characters, and the text is hostile.
LONGEST_SEARCHED = 4_000
MOST_OBJECTS_TRIED = 20


class Check(NamedTuple):
    strict: bool
    lenient: bool


def check(answer: str, given: str) -> Check:
    """Both readings of `given`. Runs of white space count as one blank; case and punctuation count.

    An answer that is a JSON object is compared as JSON: order of keys and white space don't matter, types and doubled keys do.
    """
    wanted = _object(answer)
    if wanted is not None:
        strict = _object(given) == wanted
        return Check(strict, strict or wanted in _objects_within(given))
    plain, text = _plain(answer), _plain(given)
    if not plain:
        return Check(not text, not text)
    edge = r"(?<!\w)" + re.escape(plain) + r"(?!\w)"
    return Check(plain == text, plain == text or re.search(edge, text[:LONGEST_SEARCHED]) is not None)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)


def _canonical(value: Any) -> str | None:
    # Compared as text, because Python takes True for 1 and 1 for 1.0.
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else None


def _object(text: str) -> str | None:
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        return _canonical(_DECODER.decode(stripped))
    except (ValueError, RecursionError):
        return None


def _objects_within(text: str) -> list[str]:
    found, text = [], text[:LONGEST_SEARCHED]
    for start in [match.start() for match in re.finditer(r"\{", text)][:MOST_OBJECTS_TRIED]:
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        canonical = _canonical(value)
        if canonical is not None:
            found.append(canonical)
    return found
