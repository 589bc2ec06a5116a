"""The interval of a share: correct answers out of n into bounds, so that nobody reads a difference of noise as progress."""

from __future__ import annotations

from math import sqrt


def wilson(correct: int, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """The score interval of Wilson (1927) for a share; z is the two-sided 95 % quantile of the normal distribution."""
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} correct of {n} is impossible")
    if n == 0:
        return 0.0, 1.0
    share, square = correct / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
