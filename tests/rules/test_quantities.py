"""The grammar of durations, sizes and dollars: F18, F19, F20, S50."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.errors import BadInput
from palestra.rules.quantities import LARGEST, LONGEST, read_dollars, read_duration, read_size
from palestra.rules.units import (
    DAY,
    GIB,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    show_dollars,
    show_duration,
    show_size,
)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90m", 90 * MINUTE),
        ("2h30m", 150 * MINUTE),
        ("2h 30min", 150 * MINUTE),
        ("1.5h", 90 * MINUTE),
        ("2m00s", 2 * MINUTE),
        ("6d", 6 * DAY),
        ("144h", 6 * DAY),
        ("250ms", 250 * MILLISECOND),
        (" 2 h ", 2 * HOUR),
        ("PT2H", 2 * HOUR),
        ("P1DT2H3M4S", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND),
        ("0.000001s", 1),
    ],
)
def test_f18_durations_with_units_are_read(text: str, span: int) -> None:
    assert read_duration(text, "time") == span


def test_f18_what_was_understood_is_echoed() -> None:
    assert show_duration(read_duration("90m", "time")) == "1 h 30 min"


def test_f18_s50_a_clock_time_is_refused_and_both_readings_are_offered() -> None:
    with pytest.raises(BadInput) as refused:
        read_duration("2:00", "time")
    assert refused.value.right == "write the unit: 2h00m or 2m00s, for example 2h, 2m or PT2H"
    assert str(refused.value).startswith("time: '2:00' can't be read; ")


@pytest.mark.parametrize(
    "text",
    ["", "2:00", "2:00:00", "120", "1e3s", "-5m", "5m2h", "2h2h", "1m1min", "1.5h30m", "2h5", "h", "P", "PT", "P1DT",
     "P1M", "pt2h", "2H", "2h  30m", "2h\n30m\n5s", "٢h", "∞", "nan", "0s", "0.0000001s", "9" * 5_000 + "h", "PT" + "9" * 5_000 + "H",
     "367d", 120, 2.5, True, None, ["2h"]],
)  # fmt: skip
def test_f18_everything_else_is_refused(text: object) -> None:
    with pytest.raises(BadInput):
        read_duration(text, "time")


def test_f19_900000_is_refused_whatever_its_unit_was_meant_to_be() -> None:
    """As a bare number, as text, and as seconds that are more than what is left."""
    for bare in (900_000, "900000"):
        with pytest.raises(BadInput, match="900000s, 900000m or, if these are milliseconds, 900000ms"):
            read_duration(bare, "timeout")
    with pytest.raises(BadInput, match=r"the longest allowed is 6 d; did you mean 15 min\?"):
        read_duration("900000s", "timeout", longest=6 * DAY)
    assert read_duration("900000ms", "timeout", longest=6 * DAY) == 15 * MINUTE


@given(st.integers(1, LONGEST // SECOND))
def test_f18_a_shown_duration_reads_back_the_same(seconds: int) -> None:
    assert read_duration(show_duration(seconds * SECOND), "time") == seconds * SECOND


@given(
    st.text(max_size=12)
    | st.from_regex(r"[0-9.:]{1,6}(d|h|m|s|ms|min|H)?([0-9]{1,3}(h|m|s)?)?", fullmatch=True)
)
def test_f18_any_text_is_a_positive_bounded_duration_or_refused(text: str) -> None:
    try:
        span = read_duration(text, "time")
    except BadInput as refused:
        assert refused.field == "time"
        assert refused.value == text
    else:
        assert 0 < span <= LONGEST
        assert any(unit in text for unit in "dhmsDHMS")


def test_f20_gb_and_gib_are_different_words() -> None:
    """Cap 64 GiB: 64GB is within it and shown as what it is, 65 GiB is over."""
    cap = read_size("64GiB", "memory")
    decimal = read_size("64GB", "memory")
    assert decimal <= cap
    assert show_size(decimal) == "59.6 GiB"
    assert read_size("65 GiB", "memory") > cap
    assert read_size("400GiB", "quota") - read_size("400GB", "quota") == 29_496_729_600


def test_f20_a_small_request_never_becomes_zero() -> None:
    assert read_size("0.5MiB", "memory") == 524_288
    with pytest.raises(BadInput):
        read_size("0.5B", "memory")


@pytest.mark.parametrize(
    "text",
    [
        "64",
        "64G",
        "64gb",
        "64 GiB GiB",
        "-1GiB",
        "1e3GiB",
        "0GiB",
        "",
        "9" * 5_000 + "GiB",
        "2000000TiB",
        64,
        True,
        None,
    ],
)
def test_f20_sizes_without_a_clear_unit_are_refused(text: object) -> None:
    with pytest.raises(BadInput):
        read_size(text, "memory")


@given(st.integers(1, 10_000), st.sampled_from(["GiB", "MiB", "KiB", "B"]))
def test_f20_a_shown_whole_size_reads_back_the_same(number: int, unit: str) -> None:
    size = read_size(f"{number}{unit}", "memory")
    if size % GIB == 0 and size < 1_024 * GIB:
        assert read_size(show_size(size).replace(",", ""), "memory") == size
    assert 0 < size <= LARGEST


@given(st.integers(0, 999_999_999_999_999_999))
def test_dollars_are_exact_to_the_nano_dollar(nanos: int) -> None:
    text = f"${nanos // 10**9}.{nanos % 10**9:09d}"
    assert read_dollars(text, "api_credit") == nanos
    assert show_dollars(nanos, 9).replace(",", "") == text


@pytest.mark.parametrize(
    "text",
    ["300", 300, 0.25, "$-1", "-$1", "$1,000", "$", "$.5", "€3", "$0.0000000001", "$" + "9" * 30, True],
)
def test_dollars_without_a_clear_sign_and_amount_are_refused(text: object) -> None:
    with pytest.raises(BadInput):
        read_dollars(text, "api_credit")
