"""How the figures of one column are printed: its amounts in, one unit and so many decimals for all of them out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palestra.rules.units import DOLLAR, HOUR, SECOND, places_apart, rounded

MOST_PLACES = 6


class Column(msgspec.Struct, frozen=True):
    """How the figures of one column are printed: all with the same unit and decimals."""

    unit: int
    places: int
    before: str = ""
    after: str = ""

    def number(self, amount: int) -> str:
        """Without its unit."""
        return rounded(amount, self.unit, self.places)

    def show(self, amount: int) -> str:
        """`$0.0406`, `80.5 slot-s`."""
        return f"{self.before}{self.number(amount)}{self.after}"

    def exact(self, amount: int) -> str:
        """To the last digit."""
        whole = {DOLLAR: 9, HOUR: 10, SECOND: 6}[self.unit]
        return f"{self.before}{rounded(amount, self.unit, whole)}{self.after}"


def dollars(amounts: Sequence[int]) -> Column:
    """Cents, and more decimals where different amounts would look alike."""
    return Column(DOLLAR, _apart(amounts, DOLLAR, 2), before="$")


def gpu_time(amounts: Sequence[int], limits: Sequence[int], unit: str) -> Column:
    """Hours where an allowance comes to one, else seconds."""
    if max(limits, default=0) >= HOUR:
        return Column(HOUR, _apart(amounts, HOUR, 1), after=f" {unit}-h")
    return Column(SECOND, _apart(amounts, SECOND, 1), after=f" {unit}-s")


def _apart(amounts: Sequence[int], unit: int, least: int) -> int:
    return min(MOST_PLACES, places_apart([(amount, unit) for amount in (*amounts, 0)], least))
