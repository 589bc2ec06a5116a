"""The even pace and its forecast, on the figures of the public incidents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.building import START

from palestra.report.pace import Pace, ahead, own_pace, places_from_pace, runs_out
from palestra.report.words import percent
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Micros, Moment, show_t

SIX_DAYS = 144 * HOUR
DAY_ONE = Pace(Micros(242 * HOUR // 10), Micros(SIX_DAYS))
"""24.2 of 144 hours, 16.81 %."""


def test_s08_the_forecast_of_the_public_case() -> None:
    """90.78 of 300 after 24.2 h of 144: out at T+79:58, on day 4 of 6."""
    at = START + DAY_ONE.gone
    out = runs_out(9_078 * DOLLAR // 100, 300 * DOLLAR, DAY_ONE, at)
    assert out is not None
    assert show_t(out, START) == "T+79:58"
    assert (out - START) // (24 * HOUR) + 1 == 4


def test_s09_shares_are_compared_unrounded_and_printed_apart() -> None:
    """GPU-hours of 1,000 on day one: exactly three are ahead of 16.81 %, though 167.0 prints as 17 % too."""
    hours = {"GPT-6 Astra": 2179, "Muse": 1942, "DeepSeek": 1864, "MiMo": 1670, "Kimi": 1550, "GLM": 1482}
    fast = [name for name, tenths in hours.items() if ahead(tenths, 10_000, DAY_ONE)]
    assert fast == ["GPT-6 Astra", "Muse", "DeepSeek"]
    assert percent(1670, 10_000, 0) == percent(DAY_ONE.gone, DAY_ONE.whole, 0)
    places = places_from_pace(1670, 10_000, DAY_ONE)
    assert percent(1670, 10_000, places) == "16.7\u00a0%"
    assert percent(DAY_ONE.gone, DAY_ONE.whole, places) == "16.8\u00a0%"


def test_s61_s64_a_share_is_rounded_once_by_one_rule() -> None:
    """$184.96 of $300 is 61.7 %; T+48:00 of 144 h is 33.3 %, not the 34 % of a later snapshot."""
    assert percent(18_496, 30_000) == "61.7\u00a0%"
    assert percent(48, 144) == "33.3\u00a0%"
    assert percent(0, 0) == "-"
    assert percent(1, 100_000) == "0.001\u00a0%"


def test_s53_a_late_joiner_has_its_own_time() -> None:
    """Joined at T+47:59 of 144 h: 96 h 1 min of its own; on T+71:59 exactly a quarter and a bit of them is gone."""
    joined, end = Moment(START + 48 * HOUR - MINUTE), START + SIX_DAYS
    pace = own_pace(joined, end, joined + 24 * HOUR, (), "absorb")
    assert pace == Pace(Micros(24 * HOUR), Micros(96 * HOUR + MINUTE))
    assert own_pace(joined, end, joined, (), "absorb") == Pace(Micros(0), Micros(96 * HOUR + MINUTE))


def test_own_time_stands_still_in_pauses_under_extend_only() -> None:
    pauses = ((Moment(START + HOUR), Moment(START + 2 * HOUR)),)
    end = START + 5 * HOUR
    assert own_pace(Moment(START), end, START + 3 * HOUR, pauses, "extend") == Pace(
        Micros(2 * HOUR), Micros(4 * HOUR)
    )
    assert own_pace(Moment(START), end, START + 3 * HOUR, pauses, "absorb") == Pace(
        Micros(3 * HOUR), Micros(5 * HOUR)
    )


def test_nothing_used_or_no_time_gone_has_no_forecast() -> None:
    assert runs_out(0, 10, DAY_ONE, START) is None
    assert runs_out(5, 10, Pace(Micros(0), Micros(10)), START) is None
    assert own_pace(Moment(START), START, START, (), "absorb") is None


@given(
    used=st.integers(1, 10**12),
    limit=st.integers(1, 10**12),
    gone=st.integers(1, 10**12),
    whole=st.integers(1, 10**12),
)
def test_ahead_means_out_before_the_end(used: int, limit: int, gone: int, whole: int) -> None:
    """The forecast and the comparison with the pace never contradict each other."""
    gone, whole = min(gone, whole), max(gone, whole)
    used, limit = min(used, limit), max(used, limit)
    pace = Pace(Micros(gone), Micros(whole))
    out = runs_out(used, limit, pace, START + gone)
    assert out is not None
    if ahead(used, limit, pace):
        assert out < START + whole
    else:
        assert out >= START + whole - 1
