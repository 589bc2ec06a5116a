"""Whether a corner may do anything at all just now: the checks that every request of an entrant begins with."""

from __future__ import annotations

from palestra.rules.errors import Refusal
from palestra.rules.units import Moment, show_t
from palestra.state.arena import Corner, State
from palestra.state.clock import stage_end


def seated(state: State, corner: str, at: Moment) -> Corner | Refusal:
    """The corner, when it is in, not finished, and the running stage is on; else the no that tells which."""
    seat = state.corners.get(corner)
    if seat is None:
        return Refusal("unknown_corner", f"nobody sits in corner {corner!r}")
    start = state.clock.start
    if seat.finished is not None:
        return Refusal(
            "finished", f"corner {corner} finished at {show_t(seat.finished, start)}; that is final"
        )
    if state.clock.stage == "announced":
        return Refusal(
            "not_started", f"the competition has not started; it starts at {show_t(start, start)}", retry=True
        )
    if state.clock.stage != "running" or over(state, at):
        return Refusal(
            "stage_over", "the running stage is over; what was nominated before its end is copied and judged"
        )
    return seat


def over(state: State, at: Moment) -> bool:
    """The clock has reached the stage's end, though the event isn't written yet: at the instant itself, it is over (F53)."""
    end = stage_end(state)
    return end is not None and at >= end
