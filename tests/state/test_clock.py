"""When a stage is over: the referee's own reckoning against the rules room's, over pauses of all kinds (F55, S85)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.building import START, Rehearsal, competition

from palestra.rules.competition import PauseRule
from palestra.rules.times import ends_at, used
from palestra.rules.units import HOUR, MINUTE, Micros, Moment
from palestra.state.arena import State
from palestra.state.clock import stage_end

marks = st.lists(st.integers(-30, 180), min_size=1, max_size=7, unique=True).map(sorted)
"""Minutes from the start at which the run is paused, resumed, paused, ..."""


def stopped(rule: PauseRule, minutes: list[int]) -> State:
    """A running stage of an hour with these pauses; after an odd number of marks it is paused."""
    state = Rehearsal(competition(running=HOUR, pause=rule)).state
    at = [Moment(START + minute * MINUTE) for minute in minutes]
    ends: list[Moment | None] = [*at[1::2]]
    if len(at) % 2:
        ends.append(None)
    state.clock = replace(state.clock, pauses=tuple(zip(at[::2], ends, strict=True)))
    return state


@given(st.sampled_from(["extend", "absorb"]), marks, st.integers(0, 90))
def test_f55_the_referee_and_the_rules_room_agree_on_the_end(
    rule: PauseRule, minutes: list[int], later: int
) -> None:
    state = stopped(rule, minutes)
    at = Moment(START + (minutes[-1] + later) * MINUTE)
    end = ends_at(Moment(START), Micros(HOUR), state.clock.pauses, rule, at)
    mine = stage_end(state)
    if mine is None:
        assert rule == "extend" and state.clock.paused
        assert used(Moment(START), state.clock.pauses, rule, at) < HOUR
    else:
        assert mine == end
        assert (
            used(Moment(START), state.clock.pauses, rule, end) == HOUR or end < START + minutes[-1] * MINUTE
        )


def test_the_later_stages_are_counted_from_when_they_were_entered() -> None:
    run = Rehearsal(competition(running=HOUR, closing=HOUR))
    run.reserve()  # an open call keeps closing open
    run.until(START + 2 * HOUR)
    assert run.state.clock.stage == "closing"
    assert stage_end(run.state) == START + 3 * HOUR
