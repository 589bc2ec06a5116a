"""The interval that stands beside every share."""

from __future__ import annotations

import pytest

from palestra_kit.scores import wilson


def test_wilson_against_published_values() -> None:
    """Newcombe (1998), Statistics in Medicine 17, table I: method 3 for 81/263, 15/148, 0/20 and 1/29."""
    for correct, n, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        assert wilson(correct, n) == pytest.approx((low, high), abs=5e-5)


def test_edges() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 5)[1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="6 correct of 5 is impossible"):
        wilson(6, 5)
