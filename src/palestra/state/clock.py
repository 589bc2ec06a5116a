"""Where the run stands in time: its stage, its pauses, and when what follows is due."""

from __future__ import annotations

import msgspec

from palestra.events.base import Entry, Event
from palestra.events.runs import (
    EndAsked,
    Paused,
    Resumed,
    RunOpened,
    ServerStarted,
    ServerStopped,
    StageEntered,
)
from palestra.rules.times import ends_at
from palestra.rules.units import Micros, Moment
from palestra.state.arena import State

KINDS: tuple[type[Event], ...] = (
    RunOpened,
    ServerStarted,
    ServerStopped,
    StageEntered,
    Paused,
    Resumed,
    EndAsked,
)


def fold(state: State, entry: Entry) -> None:
    """Take one event of the run into the time-keeping."""
    clock = state.clock
    match entry.event:
        case RunOpened(start=start):
            clock = msgspec.structs.replace(clock, start=start, entered=entry.at)
        case ServerStarted(pid=pid):
            clock = msgspec.structs.replace(clock, server=pid)
        case ServerStopped():
            clock = msgspec.structs.replace(clock, server=0)
        case StageEntered(stage=stage):
            clock = msgspec.structs.replace(clock, stage=stage, entered=entry.at)
        case Paused(by=by):
            clock = msgspec.structs.replace(clock, pauses=(*clock.pauses, (entry.at, None)), paused_by=by)
        case Resumed():
            closed = (clock.pauses[-1][0], entry.at)
            clock = msgspec.structs.replace(clock, pauses=(*clock.pauses[:-1], closed), paused_by="")
        case EndAsked():
            clock = msgspec.structs.replace(clock, end_asked=True)
    state.clock = clock


def stage_end(state: State) -> Moment | None:
    """When the current stage is over by the clock.

    None when it has no end (results), or when the end can't be known: paused under the rule `extend`, before it was over.
    """
    clock, stages = state.clock, state.rules.stages
    if clock.stage == "announced":
        return clock.start
    if clock.stage == "results":
        return None
    since, length = {
        "running": (clock.start, stages.running),
        "closing": (clock.entered, stages.closing),
        "judging": (clock.entered, stages.judging),
    }[clock.stage]
    over = [(begin, end) for begin, end in clock.pauses if end is not None]
    end = ends_at(since, Micros(length), over, stages.pause, since)
    open_pause = clock.pauses[-1][0] if clock.paused else end
    return end if stages.pause == "absorb" or open_pause >= end else None
