"""The tick: a source in, the few figures that tell a client whether and how much has moved out. At most 2 KB compressed."""

from __future__ import annotations

import msgspec

from palestra.state.accounts import API, GPU
from palestra.state.clock import stage_end
from palestra.web.pages.figures import t
from palestra.web.pages.source import Source


class AgentTick(msgspec.Struct, frozen=True):
    """A corner's counters; money in nano-dollars, GPU-time in GPU-microseconds."""

    api_spent: int
    gpu_spent: int
    jobs: int
    running: int
    waiting: int
    nominations: int
    current: str
    steps: int
    finished: bool


class TickSheet(msgspec.Struct, frozen=True):
    """As of row `seq`; instants in microseconds since 1970."""

    seq: int
    at: int
    t: str
    stage: str
    ends: int | None
    paused: bool
    live: bool
    agents: dict[str, AgentTick]


def tick(source: Source) -> TickSheet:
    """As of now."""
    view = source.view()
    state, cards = view.state, view.catalog
    agents = {}
    for corner, seat in state.corners.items():
        mine = [job for job in state.jobs.values() if job.corner == corner]
        agents[corner] = AgentTick(
            api_spent=state.accounts[corner, API].spent,
            gpu_spent=state.accounts[corner, GPU].spent,
            jobs=state.counters.get((corner, "j"), 0),
            running=sum(bool(job.attempt) for job in mine),
            waiting=sum(not job.attempt for job in mine),
            nominations=state.counters.get((corner, "n"), 0),
            current=seat.current,
            steps=cards.tallies[corner].steps if corner in cards.tallies else 0,
            finished=seat.finished is not None,
        )
    return TickSheet(
        seq=state.seq,
        at=view.at,
        t=t(state, view.at),
        stage=state.clock.stage,
        ends=stage_end(state),
        paused=state.clock.paused,
        live=source.live and state.clock.stage != "results",
        agents=agents,
    )
