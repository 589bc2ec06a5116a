"""JSON bodies of requests: bytes in, an object fit for the book out, or `BadInput` that names field, value and what is right."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palestra.rules.errors import BadInput

LARGEST = 1 << 63
"""Whole numbers must be smaller than this: the journal's JSON holds 64 bits."""
_SHOWN = 200
"""Characters of a value that an answer repeats."""
_WORDS = {
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`", re.DOTALL)
_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")


def read_object(data: bytes) -> dict[str, Any]:
    """The body as builtins; nothing in it is text with NUL or a number beyond 64 bits. An empty body is an empty object."""
    try:
        raw = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise BadInput("body", shown, f"the body must be a JSON object in UTF-8 ({error})") from None
    if not isinstance(raw, dict):
        raise BadInput("body", _show(raw), "the body must be a JSON object")
    _refuse_unfit(raw)
    return raw


def _refuse_unfit(raw: dict[str, Any]) -> None:
    """What is JSON, but can't be a path, an argument or a figure."""
    left: list[tuple[str, Any]] = [("", raw)]
    while left:
        path, value = left.pop()
        match value:
            case str() if "\0" in value:
                raise BadInput(path or "body", value[:_SHOWN], "text must not hold a NUL character")
            case int() if not -LARGEST <= value < LARGEST:
                raise BadInput(path, "a huge number", "a whole number must fit into 64 bits")
            case dict():
                if any("\0" in key for key in value):
                    raise BadInput(path or "body", "a field", "a field's name must not hold a NUL character")
                left += [(f"{path}.{key}" if path else key, one) for key, one in value.items()]
            case list():
                left += [(f"{path}[{number}]", one) for number, one in enumerate(value)]


def say_misfit(message: str, raw: dict[str, Any], kind: type) -> BadInput:
    """msgspec's complaint in our words."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`")
    if found := _MISSING.fullmatch(what):
        return BadInput(_join(place, found[1]), "", "this field is needed")
    if found := _UNKNOWN.fullmatch(what):
        holder = _look(raw, place)
        value = holder.get(found[1], "") if isinstance(holder, dict) else ""
        known = (
            "" if place else f"; known are {', '.join(field.name for field in msgspec.structs.fields(kind))}"
        )
        return BadInput(_join(place, found[1])[:_SHOWN], _show(value), f"there is no such field here{known}")
    right = what[0].lower() + what[1:]
    if found := _TYPE.fullmatch(what):
        right = f"it must be {_say_types(found[1])}"
    return BadInput(_join(place) or "body", _show(_look(raw, place)), right)


def _say_types(names: str) -> str:
    said = [_WORDS.get(name.strip(), name.strip()) for name in names.split("|")]
    return " or ".join("nothing (null)" if word == "null" else word for word in said)


def _join(place: str, *more: str) -> str:
    return ".".join(part for part in (place.lstrip("."), *more) if part)


def _look(raw: Any, place: str) -> Any:
    """What stands at a path of msgspec's, as far down as it names it."""
    for name, number in _STEP.findall(place):
        try:
            raw = raw[name] if name else raw[int(number)]
        except (KeyError, IndexError, TypeError):
            return raw
    return raw


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 4] + " ..."
