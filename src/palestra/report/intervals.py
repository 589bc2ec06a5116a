"""Intervals of shares: correct of n in, the Wilson 95 % interval out."""

from __future__ import annotations

from math import sqrt

Z95 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


def wilson(correct: int, n: int, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a binomial share (E. B. Wilson, JASA 22, 1927); (0, 1) when n is 0."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = correct / n, z * z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z * sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
