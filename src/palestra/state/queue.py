"""Jobs that wait or run, attempts and the room they take on nodes; ended jobs leave."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from palestra.events.base import Entry, Event
from palestra.events.jobs import (
    AttemptEnded,
    AttemptStarted,
    JobEnded,
    JobSubmitted,
    StopAsked,
    WaitChanged,
)  # fmt: skip
from palestra.rules.errors import Corrupt
from palestra.state.arena import Attempt, Job, State

HOUSE = "house"
"""The account of the arena's own work: visible in the queue, never charged."""


KINDS: tuple[type[Event], ...] = (
    JobSubmitted,
    WaitChanged,
    AttemptStarted,
    StopAsked,
    AttemptEnded,
    JobEnded,
)


def fold(state: State, entry: Entry) -> None:
    """Take one event of the queue in. Runs after the accounts, which need the attempt's hold."""
    match entry.event:
        case JobSubmitted() as event:
            state.jobs[event.job] = Job(event.job, event.corner, event.spec, entry.at, event.purpose)
            state.counters[event.corner, "j"] = state.counters.get((event.corner, "j"), 0) + 1
        case WaitChanged() as event:
            state.jobs[event.job] = replace(state.jobs[event.job], wait=(event.resource, event.blockers))
        case AttemptStarted() as event:
            job = state.jobs[event.job]
            state.jobs[event.job] = replace(job, attempt=event.attempt, attempts=job.attempts + 1, wait=None)
            state.attempts[event.attempt] = Attempt(
                event.attempt, event.job, event.corner, event.node, event.gpus, event.memory, event.limit,
                event.hold, entry.at,
            )  # fmt: skip
        case StopAsked() as event:
            attempt = state.attempts[event.attempt]
            state.attempts[event.attempt] = replace(attempt, stopping=event.why, stopped_by=event.by)
        case AttemptEnded() as event:
            if state.attempts.pop(event.attempt, None) is None:
                raise Corrupt(f"attempt {event.attempt} ended, but it isn't open")
            state.jobs[event.job] = replace(state.jobs[event.job], attempt="")
        case JobEnded() as event:
            if state.jobs.pop(event.job, None) is None:
                raise Corrupt(f"job {event.job} ended, but it isn't open")


class Room(msgspec.Struct, frozen=True):
    """What is free on a node."""

    node: str
    gpus: tuple[int, ...]
    memory: int


def room(state: State) -> dict[str, Room]:
    """Free GPUs and memory by node, in the order the nodes are declared."""
    taken: dict[str, set[int]] = {}
    reserved: dict[str, int] = {}
    for attempt in state.attempts.values():
        taken.setdefault(attempt.node, set()).update(attempt.gpus)
        reserved[attempt.node] = reserved.get(attempt.node, 0) + attempt.memory
    return {
        node.name: Room(
            node.name,
            tuple(gpu for gpu in range(node.gpus) if gpu not in taken.get(node.name, ())),
            node.memory - reserved.get(node.name, 0),
        )
        for node in state.rules.nodes
    }
