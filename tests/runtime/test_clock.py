"""F56: the wall clock steps; the run's own goes on evenly, never back, and an organiser hears of it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.units import HOUR, SECOND, Moment
from palestra.runtime.clock import DRIFT, RunClock, VirtualClock

NOON = 1_796_137_200_000_000


class Hands:
    """Two clocks that are set by hand: the wall's, and the time since boot."""

    def __init__(self) -> None:
        self.wall = NOON
        self.boot = 5 * HOUR

    def go_on(self, span: int) -> None:
        self.wall += span
        self.boot += span

    def clock(self, last: int = 0) -> RunClock:
        return RunClock(last, wall=lambda: self.wall, since_boot=lambda: self.boot)


def test_it_starts_at_the_wall_clock_and_goes_on_with_what_went_by() -> None:
    hands = Hands()
    clock = hands.clock()
    assert clock.now() == NOON
    hands.go_on(90 * SECOND)
    assert clock.now() == NOON + 90 * SECOND
    assert clock.drift() == 0


def test_f56_a_wall_clock_set_back_an_hour_is_an_alarm_not_a_jump() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.go_on(SECOND)
    hands.wall -= HOUR
    assert clock.now() == NOON + SECOND
    assert clock.drift() == -HOUR < -DRIFT
    hands.wall += 2 * HOUR
    assert clock.now() == NOON + SECOND
    assert clock.drift() == HOUR > DRIFT


def test_f56_after_a_restart_it_isnt_before_the_last_row() -> None:
    """The wall clock was set back while no server ran: the record goes on from its last instant."""
    hands = Hands()
    clock = hands.clock(last=NOON + HOUR)
    assert clock.now() == NOON + HOUR
    hands.go_on(SECOND)
    assert clock.now() == NOON + HOUR + SECOND
    assert clock.drift() == -HOUR


def test_a_suspended_machine_slept_but_time_went_by() -> None:
    """Boot time counts suspends, so limits and the stage's end hold."""
    hands = Hands()
    clock = hands.clock()
    hands.boot += 8 * HOUR
    hands.wall += 8 * HOUR
    assert clock.now() == NOON + 8 * HOUR


@given(
    st.lists(st.tuples(st.integers(0, HOUR), st.integers(-HOUR, HOUR)), max_size=30), st.integers(0, 2 * NOON)
)
def test_it_never_decreases(steps: list[tuple[int, int]], last: int) -> None:
    hands = Hands()
    clock = hands.clock(last)
    before = clock.now()
    assert before >= last
    for went_by, jump in steps:
        hands.go_on(went_by)
        hands.wall += jump
        assert clock.now() == before + went_by
        before = clock.now()


def test_the_real_one_reads_the_machines_clocks() -> None:
    clock = RunClock()
    first = clock.now()
    assert abs(clock.drift()) < DRIFT
    assert first <= clock.now()


def test_sleeping_ends_at_the_moment_or_after_it() -> None:
    async def go() -> None:
        clock = RunClock()
        for span in (-SECOND, 0, 20_000):
            moment = Moment(clock.now() + span)
            await clock.sleep_until(moment)
            assert clock.now() >= moment

    asyncio.run(go())


def test_a_virtual_one_moves_when_told_and_never_back() -> None:
    clock = VirtualClock(NOON)
    clock.move_to(NOON + SECOND)
    clock.move_to(NOON)
    assert clock.now() == NOON + SECOND
    asyncio.run(clock.sleep_until(Moment(NOON + HOUR)))
    assert clock.now() == NOON + HOUR
