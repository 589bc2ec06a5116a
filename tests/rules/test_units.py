"""The one rounding rule, and figures as they are shown: S09, S10, S61, S88."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.units import (
    DOLLAR,
    GIB,
    HOUR,
    KIB,
    MINUTE,
    SECOND,
    adds_up,
    places_apart,
    rounded,
    show_dollars,
    show_duration,
    show_gpu_time,
    show_hours,
    show_share,
    show_size,
    show_t,
)


def test_s61_a_share_is_rounded_once_from_the_exact_ratio() -> None:
    """$184.96 of $300 is 61.6533... %: 61.7 with one decimal, 61.65 with two, and 62 only when none is wanted."""
    spent, credit = 184_960_000_000, 300 * DOLLAR
    assert [show_share(spent, credit, places) for places in (0, 1, 2, 3)] == [
        "62 %",
        "61.7 %",
        "61.65 %",
        "61.653 %",
    ]


def test_s61_exact_halves_go_to_even() -> None:
    assert [rounded(n, 1_000, 2) for n in (61_645, 61_655, 61_665)] == ["61.64", "61.66", "61.66"]
    assert [rounded(n, 2, 0) for n in (1, 3, 5, -1, -3)] == ["0", "2", "2", "0", "-2"]


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20), st.integers(0, 12))
def test_s61_rounding_is_exact_for_numbers_of_any_length(part: int, whole: int, places: int) -> None:
    with localcontext(prec=120):
        exact = (Decimal(part) / Decimal(whole)).quantize(
            Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN
        )
        shown = Decimal(rounded(part, whole, places).replace(",", ""))
        assert shown == exact
        assert abs(Fraction(shown) - Fraction(part, whole)) <= Fraction(1, 2 * 10**places)


def test_s09_shares_print_with_enough_decimals_for_their_order_to_show() -> None:
    """167.0 of 1,000 GPU-hours and 24.2 of 144 hours both print as 17 %, so one decimal more is needed."""
    shares = [(167 * 100, 1_000), (242 * 100, 1_440)]
    assert {rounded(*share, 0) for share in shares} == {"17"}
    places = places_apart(shares)
    assert places == 1
    assert [rounded(*share, places) for share in shares] == ["16.7", "16.8"]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=6), st.integers(0, 3))
def test_s09_different_ratios_never_print_alike(ratios: list[tuple[int, int]], least: int) -> None:
    places = places_apart(ratios, least)
    assert places >= least
    assert len({rounded(*ratio, places) for ratio in ratios}) == len({Fraction(*ratio) for ratio in ratios})


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20), st.integers(0, 3))
def test_s10_s88_printed_rows_and_total_of_one_ledger_always_add_up(rows: list[int], places: int) -> None:
    printed = [rounded(row, DOLLAR, places) for row in rows]
    half = Fraction(1, 2 * 10**places)
    drift = abs(Fraction(sum(rows), DOLLAR) - sum(Fraction(text.replace(",", "")) for text in printed))
    assert drift <= len(rows) * half
    if sum(rows) * 10**places % DOLLAR == 0:  # the total itself isn't rounded
        assert adds_up(printed, rounded(sum(rows), DOLLAR, places))


def test_s10_s88_a_total_off_by_more_than_rounding_is_seen() -> None:
    rows = ["83.43"] * 10
    assert adds_up(rows, "834.33")  # 3 cents over ten rows
    assert adds_up(rows, "834.25")  # the last that rounding explains: 5 cents
    assert not adds_up(rows, "834.24")
    assert adds_up(["150.0"] * 8, "1,200.1")
    assert not adds_up(["150.0"] * 8, "1,200.5")


def test_s58_a_share_of_nothing_is_a_dash() -> None:
    assert show_share(0, 0) == "-"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "$0.00"),
        (184_960_000_000, "$184.96"),
        (1_200_100_000_000, "$1,200.10"),
        (-5_000_000, "-$0.005000"),
        (1_234, "$0.000001"),
        (7, "$0.000000007"),
    ],
)
def test_no_amount_but_zero_prints_as_zero(amount: int, text: str) -> None:
    assert show_dollars(amount) == text


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0 s"),
        (300, "0.300 ms"),
        (20_000, "20 ms"),
        (300_000, "0.3 s"),
        (59_940_000, "59.9 s"),
        (59_960_000, "1 min"),
        (45 * SECOND, "45 s"),
        (90 * MINUTE, "1 h 30 min"),
        (143 * HOUR + 56 * MINUTE, "5 d 23 h 56 min"),
        (-150 * SECOND, "-2 min 30 s"),
    ],
)
def test_durations_are_shown_in_whole_units(span: int, text: str) -> None:
    assert show_duration(span) == text


def test_sizes_gpu_time_and_t_are_shown_with_their_unit() -> None:
    assert [show_size(size) for size in (12, KIB, 1_023 * KIB, 1_048_575, GIB, 64 * 10**9)] == [
        "12 B",
        "1 KiB",
        "1,023 KiB",
        "1.0 MiB",
        "1 GiB",
        "59.6 GiB",
    ]
    assert [show_gpu_time(time) for time in (0, 35 * SECOND, 90 * MINUTE)] == [
        "0.0 GPU-s",
        "35.0 GPU-s",
        "1.50 GPU-h",
    ]
    assert show_t(78 * HOUR + 42 * MINUTE + 59 * SECOND, 0) == "T+78:42"
    assert show_t(83 * SECOND, 0, seconds=True) == "T+0:01:23"
    assert show_t(0, 5 * MINUTE) == "T-0:05"
    assert show_hours(143 * HOUR + 56 * MINUTE) == "143:56"
