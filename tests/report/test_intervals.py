"""Wilson's interval of a share: against published figures, and for every count within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.report.intervals import wilson


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0000, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_figures(correct: int, n: int, low: float, high: float) -> None:
    assert list(wilson(correct, n)) == pytest.approx([low, high], abs=5e-5)


def test_nothing_asked_tells_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**7), st.data())
def test_the_share_lies_within_and_both_ends_within_bounds(n: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, n))
    low, high = wilson(correct, n)
    assert 0.0 <= low <= correct / n <= high <= 1.0
    assert list(wilson(n - correct, n)) == pytest.approx([1 - high, 1 - low], abs=1e-12)
