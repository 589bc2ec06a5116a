"""Answers made readable: JSON values in, lines of at most 80 columns out."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDTH = 80


def print_json(value: object) -> None:
    """What `--json` prints; text stays as it is, not escaped."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def wrapped(text: str, indent: str = "") -> str:
    """Text in lines of at most 80 columns, those after the first indented."""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, one a line, aligned; rows without a value are left out."""
    kept = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in kept), default=0) + 2
    return "\n".join(wrapped(f"{name:<{width}}{value}", " " * width) for name, value in kept)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: int) -> str:
    """Aligned columns; the `flexible` one is cut, visibly, to keep lines within 80 columns."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    over = sum(widths) + 2 * (len(heads) - 1) - WIDTH
    if over > 0:
        widths[flexible] = max(6, widths[flexible] - over)
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        f"{cut(cell, width):<{width}}" for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def cut(text: str, width: int) -> str:
    """Text on one line, at most `width` wide, with an ellipsis where something is left out."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def size(value: Any) -> str:
    """Bytes in binary units; text that the server has already made is passed on."""
    if not isinstance(value, int):
        return "" if value is None else str(value)
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.1f} {unit}".replace(".0 ", " ")
    return f"{value} B"


def span(value: Any) -> str:
    """Microseconds as `1 h 30 min`; text that the server has already made is passed on."""
    if not isinstance(value, int):
        return "" if value is None else str(value)
    if value < 60_000_000:
        return f"{value / 1_000_000:.1f} s".replace(".0 ", " ")
    seconds = value // 1_000_000
    parts = (
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    )
    return " ".join(f"{n} {unit}" for n, unit in parts if n)


def gpu_time(value: Any) -> str:
    """GPU-microseconds as GPU-hours, or GPU-seconds below a hundredth of an hour."""
    if not isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value / 1e6:.1f} GPU-s" if value < 36_000_000 else f"{value / 3.6e9:.2f} GPU-h"
