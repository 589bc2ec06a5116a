"""The one grammar of durations, sizes and dollars: text with a unit in, integers out, everything else refused."""

from __future__ import annotations

import re
from decimal import Decimal

from palestra.rules.errors import BadInput
from palestra.rules.units import (
    DAY,
    DOLLAR,
    GIB,
    HOUR,
    KIB,
    MIB,
    MILLISECOND,
    MINUTE,
    SECOND,
    TIB,
    Bytes,
    Micros,
    NanoDollars,
    show_duration,
)

# At most 12 digits before the point and 9 after it: every sum below is exact and fits 64 bits with room.
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_SPAN = {"d": DAY, "h": HOUR, "m": MINUTE, "min": MINUTE, "s": SECOND, "ms": MILLISECOND}
_PIECE = re.compile(rf"({_NUMBER}) ?(d|h|min|ms|m|s) ?")
_ISO = re.compile(r"P(?:([0-9]{1,12})D)?(?:T(?=.)(?:([0-9]{1,12})H)?(?:([0-9]{1,12})M)?(?:([0-9]{1,12})S)?)?")
_SIZE = re.compile(rf"({_NUMBER}) ?(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)")
_SIZES = {
    "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_DOLLARS = re.compile(r"\$([0-9]{1,9}(?:\.[0-9]{1,9})?)")
LONGEST = Micros(366 * DAY)
LARGEST = Bytes(1 << 60)


def read_duration(text: object, field: str, *, longest: int = LONGEST) -> Micros:
    """`90m`, `2h30m`, `1.5h`, `PT2H` as microseconds; `2:00`, `120` and anything else is refused with a hint (F18)."""
    if not isinstance(text, str):
        raise BadInput(field, text, f"a duration is text with a unit: {_hint(str(text))}")
    span = _read_span(text.strip())
    if span is None:
        raise BadInput(field, text, f"write the unit: {_hint(text)}")
    if span <= 0:
        raise BadInput(field, text, "a duration here must be longer than zero")
    if span > longest:
        meant = f"; did you mean {show_duration(span // 1_000)}?" if span % 1_000_000_000 == 0 else ""
        raise BadInput(field, text, f"the longest allowed is {show_duration(longest)}{meant}")
    return Micros(span)


def _read_span(text: str) -> int | None:
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return days * DAY + hours * HOUR + minutes * MINUTE + seconds * SECOND
    pieces = list(_PIECE.finditer(text))
    if not pieces or "".join(piece[0] for piece in pieces) != text:
        return None
    units = [_SPAN[piece[2]] for piece in pieces]
    if units != sorted(set(units), reverse=True) or any("." in piece[1] for piece in pieces[:-1]):
        return None
    return sum(int(Decimal(piece[1]) * _SPAN[piece[2]]) for piece in pieces)


def _hint(text: str) -> str:
    clock = re.fullmatch(r"\s*([0-9]+):([0-9][0-9])(?::([0-9][0-9]))?\s*", text)
    if clock and clock[3] is None:
        return f"{clock[1]}h{clock[2]}m or {clock[1]}m{clock[2]}s, for example 2h, 2m or PT2H"
    if clock:
        return f"{clock[1]}h{clock[2]}m{clock[3]}s, for example 2h30m or PT2H"
    number = re.fullmatch(rf"\s*({_NUMBER})\s*", text)
    if number and Decimal(number[1]) >= 1_000 and Decimal(number[1]) % 1_000 == 0:
        return f"{number[1]}s, {number[1]}m or, if these are milliseconds, {number[1]}ms"
    if number:
        return f"{number[1]}s, {number[1]}m or {number[1]}h"
    return "for example 90m, 2h30m or PT2H, largest unit first"


def read_size(text: object, field: str) -> Bytes:
    """`64GiB` or `64GB` (they differ) as bytes; a bare number is refused (F20)."""
    if not isinstance(text, str):
        raise BadInput(field, text, "a size is text with a unit, for example 64GiB")
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise BadInput(field, text, "write a number and B, KiB, MiB, GiB, TiB or decimal kB, MB, GB, TB")
    size = int(Decimal(found[1]) * _SIZES[found[2]])
    if not 0 < size <= LARGEST:
        raise BadInput(field, text, "a size here is at least 1 B and at most 1,048,576 TiB")
    return Bytes(size)


def read_dollars(text: object, field: str) -> NanoDollars:
    """`$300` or `$0.25` as nano-dollars; numbers without the sign are refused, so that no unit is guessed."""
    found = _DOLLARS.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found:
        right = 'write dollars as text with the sign and no commas, for example "$300" or "$0.25" (9 decimals at most)'
        raise BadInput(field, text, right)
    return NanoDollars(int(Decimal(found[1]) * DOLLAR))
