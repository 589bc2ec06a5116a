"""Integers with their unit in the type, and the one rounding rule; numbers in, shown text out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NewType

NanoDollars = NewType("NanoDollars", int)
"""10^-9 US dollars."""
Micros = NewType("Micros", int)
"""A duration in microseconds."""
GpuMicros = NewType("GpuMicros", int)
"""GPU-time: GPUs times microseconds."""
Bytes = NewType("Bytes", int)
Moment = NewType("Moment", int)
"""An instant: microseconds since 1970-01-01T00:00Z, never decreasing within a run."""
Digest = NewType("Digest", str)
"""A content digest: `sha256:` and 64 hex digits."""

DOLLAR = 1_000_000_000
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def rounded(numerator: int, denominator: int, places: int) -> str:
    """`numerator / denominator` with `places` decimals, half to even, in whole numbers: the only rounding there is."""
    scaled, rest = divmod(abs(numerator) * 10**places, abs(denominator))
    if 2 * rest > abs(denominator) or (2 * rest == abs(denominator) and scaled % 2):
        scaled += 1
    sign = "-" if scaled and (numerator < 0) != (denominator < 0) else ""
    whole, part = divmod(scaled, 10**places)
    return f"{sign}{whole:,}.{part:0{places}d}" if places else f"{sign}{whole:,}"


def places_apart(ratios: Iterable[tuple[int, int]], places: int = 0) -> int:
    """The fewest decimals, `places` at least, at which different ratios print differently, so that their order shows."""
    values = {Fraction(part, whole) for part, whole in ratios}
    while len({rounded(value.numerator, value.denominator, places) for value in values}) < len(values):
        places += 1
    return places


def adds_up(rows: Sequence[str], total: str) -> bool:
    """Whether printed rows differ from their printed total by rounding alone: half a unit of the last place a row."""
    numbers = [Decimal(text.replace(",", "")) for text in (*rows, total)]
    half = Decimal(5).scaleb(min(int(number.as_tuple().exponent) for number in numbers) - 1)
    return abs(sum(numbers[:-1]) - numbers[-1]) <= half * max(1, len(rows))


def show_dollars(amount: int, places: int = 2) -> str:
    """Nano-dollars as `$184.96`; amounts that would print as zero keep enough places to be seen."""
    sign, amount = ("-", -amount) if amount < 0 else ("", amount)
    if 0 < amount < DOLLAR // 100 and places == 2:
        places = 6 if amount >= 1_000 else 9
    return f"{sign}${rounded(amount, DOLLAR, places)}"


def exact_dollars(amount: int) -> str:
    """Nano-dollars with every decimal they have and at least two, as prices are told: `$1.25`, `$0.125`."""
    whole, rest = divmod(abs(amount), DOLLAR)
    sign = "-" if amount < 0 else ""
    return f"{sign}${whole:,}.{f'{rest:09d}'.rstrip('0').ljust(2, '0')}"


def show_gpu_time(amount: int) -> str:
    """GPU-microseconds as `1.50 GPU-h`, or in GPU-seconds below a hundredth of an hour."""
    if abs(amount) < HOUR // 100:
        return f"{rounded(amount, SECOND, 1)} GPU-s"
    return f"{rounded(amount, HOUR, 2)} GPU-h"


def show_duration(span: int) -> str:
    """Microseconds as `6 d 2 h`, `1 h 30 min`, `45 s`, `0.3 s`, `20 ms`; parts of a second only below a minute."""
    sign, span = ("-", -span) if span < 0 else ("", span)
    if 0 < span < 50 * MILLISECOND:
        return f"{sign}{rounded(span, MILLISECOND, 0 if span % MILLISECOND == 0 else 3)} ms"
    if span < MINUTE - 50 * MILLISECOND:
        return f"{sign}{rounded(span, SECOND, 0 if span % SECOND == 0 else 1)} s"
    total = max(60, span // SECOND)
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    return sign + " ".join(f"{n} {unit}" for n, unit in parts if n)


def show_size(size: int) -> str:
    """Bytes in binary units with one decimal: `59.6 GiB`, `12 B`."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size) >= unit - unit // 20_480:  # what would print as 1,024.0 of the unit below
            return f"{rounded(size, unit, 0 if size % unit == 0 else 1)} {name}"
    return f"{size} B"


def show_share(part: int, whole: int, places: int = 1) -> str:
    """`part` of `whole` as a percentage, or `-` when there is no whole."""
    return "-" if whole == 0 else f"{rounded(100 * part, whole, places)} %"


def show_t(at: int, start: int, *, seconds: bool = False) -> str:
    """T+H:MM from the competition's start, with seconds for competitions under three hours; T-... before it."""
    return f"{'T-' if at < start else 'T+'}{show_hours(abs(at - start), seconds=seconds)}"


def show_hours(span: int, *, seconds: bool = False) -> str:
    """Microseconds as `143:56`, hours and minutes; with seconds `143:56:00`. What is left over is dropped."""
    hours, rest = divmod(max(0, span) // SECOND, 3_600)
    text = f"{hours}:{rest // 60:02d}"
    return f"{text}:{rest % 60:02d}" if seconds else text
