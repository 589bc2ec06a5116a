"""The rules of time: F53, F54, F55, F56, S02, S08, S53, S58, S85, S86."""

from __future__ import annotations

import itertools
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules import times
from palestra.rules.competition import PauseRule
from palestra.rules.errors import BadInput
from palestra.rules.times import EPOCH
from palestra.rules.units import DAY, HOUR, MINUTE, SECOND, Micros, Moment, show_hours, show_share, show_t

START = Moment(
    (datetime.fromisoformat("2026-12-01T17:04:00+02:00") - EPOCH).days * DAY + 15 * HOUR + 4 * MINUTE
)
Span = tuple[Moment, Moment | None]


@st.composite
def pauses(draw: st.DrawFn) -> list[Span]:
    """Pauses in order and apart, around a start at 0; the last may still be open."""
    points = sorted(draw(st.sets(st.integers(-50, 400), max_size=8)))
    spans: list[Span] = [(Moment(a), Moment(b)) for a, b in zip(points[::2], points[1::2], strict=False)]
    return [*spans, (Moment(points[-1]), None)] if len(points) % 2 else spans


def at(hours: int, minutes: int = 0) -> Moment:
    return Moment(START + hours * HOUR + minutes * MINUTE)


def test_s02_a_start_at_17_04_and_an_end_at_17_00_six_days_later_are_143_56_apart() -> None:
    end = times.day_window(6, START)[1] - 4 * MINUTE
    assert show_hours(end - START) == "143:56"
    assert times.show_utc(START) == "2026-12-01 15:04:00Z"
    assert times.show_utc(end) == "2026-12-07 15:00:00Z"


def test_s53_a_late_joiner_has_what_is_left_until_the_same_end() -> None:
    """Joined at T+47:59: 96:01 of a competition of 144 h, 95:57 if it ends at 143:56."""
    joined = at(47, 59)
    assert show_hours(times.left(joined, at(144))) == "96:01"
    assert show_hours(times.left(joined, at(143, 56))) == "95:57"


def test_s53_windows_before_joining_are_blank_and_not_zero() -> None:
    joined = at(47, 59)
    windows = [times.own_window(window, joined) for window in times.day_windows(START, at(144))]
    assert windows[0] is None
    assert windows[1] == (joined, at(48))
    assert windows[2] == (at(48), at(72))
    assert times.own_window((at(0), at(24)), None) is None


def test_s58_one_who_has_not_started_divides_by_nothing() -> None:
    for joined in (None, at(48)):
        assert show_share(*times.share_used(joined, at(144), at(47))) == "-"
    assert show_share(*times.share_used(at(48), at(144), at(72))) == "25.0 %"
    assert show_share(*times.share_used(at(144), at(144), at(145))) == "-"


def test_f53_before_the_end_is_in_time_and_the_end_itself_is_not() -> None:
    end = at(144)
    assert times.in_time(end - SECOND, end)
    assert times.in_time(end - 1, end)
    assert not times.in_time(end, end)


@pytest.mark.parametrize(
    ("requested", "kept", "counts"),
    [
        (at(143, 59), at(144, 30), True),
        (at(144), at(144, 30), False),
        (at(143, 59), at(145), False),
        (at(143, 59), None, False),
        (at(1), at(2), True),
    ],
)
def test_f54_requested_while_running_and_kept_before_closing_ends(
    requested: Moment, kept: Moment | None, counts: bool
) -> None:
    assert times.counts(requested, kept, at(144), at(145)) is counts


def test_f55_a_pause_stops_a_limit_at_once() -> None:
    """Limit 60 min, paused at 50 for 30: at wall 60 everyone still reads 50, and the end is at 90."""
    length, spans = Micros(60 * MINUTE), [(Moment(START + 50 * MINUTE), None)]
    wall = START + 60 * MINUTE
    assert times.used(START, spans, "extend", wall) == 50 * MINUTE
    assert wall < times.ends_at(START, length, spans, "extend", wall) == START + 70 * MINUTE
    closed = [(Moment(START + 50 * MINUTE), Moment(START + 80 * MINUTE))]
    assert times.ends_at(START, length, closed, "extend", START + 85 * MINUTE) == START + 90 * MINUTE
    assert times.used(START, closed, "extend", START + 85 * MINUTE) == 55 * MINUTE


@pytest.mark.parametrize("began", [60, 62, 600])
def test_s85_a_pause_from_the_end_on_or_before_the_start_moves_nothing(began: int) -> None:
    before = (Moment(START - 10 * MINUTE), START)
    after = (Moment(START + began * MINUTE), Moment(START + (began + 30) * MINUTE))
    end = times.ends_at(START, Micros(HOUR), [before, after], "extend", START + 700 * MINUTE)
    assert end == START + HOUR


def test_s85_under_absorb_a_pause_moves_nothing() -> None:
    spans = [(Moment(START + 50 * MINUTE), Moment(START + 80 * MINUTE))]
    assert times.ends_at(START, Micros(HOUR), spans, "absorb", START + HOUR) == START + HOUR
    assert times.used(START, spans, "absorb", START + HOUR) == HOUR


@given(pauses(), st.integers(1, 200), st.sampled_from(["extend", "absorb"]), st.integers(-60, 900))
def test_f55_a_stage_is_over_exactly_when_its_length_is_used_up(
    spans: list[Span], length: int, rule: PauseRule, now: int
) -> None:
    known = [(begin, None if over is None or over > now else over) for begin, over in spans if begin <= now]
    end = times.ends_at(Moment(0), Micros(length), known, rule, now)
    spent = times.used(Moment(0), known, rule, now)
    assert end >= length
    assert 0 <= spent <= max(0, now)
    assert (now >= end) == (spent >= length)
    # Who pauses can't bring the end nearer, and a second more of pause moves it by a second at most.
    assert times.ends_at(Moment(0), Micros(length), known, rule, now + 1) - end in (0, 1)


@given(pauses(), st.integers(-60, 500), st.integers(0, 300), st.integers(0, 300))
def test_s85_paused_time_of_adjacent_windows_adds_up(
    spans: list[Span], since: int, first: int, second: int
) -> None:
    middle, end = since + first, since + first + second
    together = times.paused(spans, since, end)
    assert times.paused(spans, since, middle) + times.paused(spans, middle, end) == together
    assert 0 <= together <= end - since


@given(st.integers(0, 3 * 366 * DAY), st.integers(1, 20 * DAY))
def test_s86_days_are_half_open_and_cover_the_competition_once(start: int, length: int) -> None:
    windows = list(times.day_windows(Moment(start), start + length))
    assert windows[0][0] == start
    assert windows[-1][1] == start + length
    assert all(left[1] == right[0] for left, right in itertools.pairwise(windows))
    for day, (since, until) in enumerate(windows, 1):
        assert times.day_of(since, Moment(start)) == day
        assert times.day_of(until - 1, Moment(start)) == day
        assert until - since <= DAY


def test_s86_an_act_at_t_96_belongs_to_day_5() -> None:
    assert times.day_of(at(96) - 1, START) == 4
    assert times.day_of(at(96), START) == 5
    assert times.day_of(START - 1, START) == 0


@given(st.integers(-500 * HOUR, 5_000 * HOUR), st.integers(0, 10**15))
def test_t_plus_is_read_as_it_is_shown(span: int, start: int) -> None:
    shown = show_t(start + span, start, seconds=True)
    assert abs(times.read_t(shown, Moment(start), "effective") - start - span) < SECOND
    assert show_t(times.read_t(shown, Moment(start), "effective"), start, seconds=True).lstrip(
        "T+-"
    ) == shown.lstrip("T+-")


@pytest.mark.parametrize(
    "text", ["78:42", "T78:42", "T+78", "T+78:60", "T+1:2", "T+٧:42", "T+1:00:99", 78, None]
)
def test_what_is_not_t_plus_is_refused(text: object) -> None:
    with pytest.raises(BadInput, match="for example"):
        times.read_t(text, START, "effective")


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(-HOUR, HOUR)), max_size=20))
def test_f56_a_step_of_the_wall_clock_moves_nothing(steps: list[tuple[int, int]]) -> None:
    """Set the date an hour on and back while running: instants go by boot time alone and never decrease."""
    clock = times.anchor(wall=START, boot=5 * SECOND, last=0)
    boot, read = 5 * SECOND, [clock.read(5 * SECOND)]
    for passed, stepped in steps:
        boot += passed
        wall = START + boot - 5 * SECOND + stepped
        assert clock.drift(boot, wall) == stepped
        read.append(clock.read(boot))
    assert [later - earlier for earlier, later in itertools.pairwise(read)] == [passed for passed, _ in steps]


@given(st.integers(0, 10**16), st.integers(0, 10**16))
def test_f56_after_a_restart_time_goes_on_from_the_journal_never_before_it(wall: int, last: int) -> None:
    clock = times.anchor(wall, boot=7, last=last)
    assert clock.read(7) == max(wall, last)
    assert clock.read(3) >= last  # a machine that was rebooted counts from 0 again
