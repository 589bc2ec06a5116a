"""Which waiting jobs start now, and for each that doesn't: exactly what it waits for. FIFO, first fit."""

from __future__ import annotations

import msgspec

from palestra.events.base import Entry, Event
from palestra.events.jobs import AttemptStarted, WaitChanged
from palestra.rules.units import Bytes, GpuMicros, Micros, Moment, show_duration, show_gpu_time, show_size
from palestra.state.accounts import GPU
from palestra.state.arena import Job, State
from palestra.state.fold import fold
from palestra.state.queue import HOUSE, Room, room


class Wait(msgspec.Struct, frozen=True):
    """Why a job waits: the binding resource, amounts in its unit, the best node, who holds it, and a sentence."""

    resource: str
    """`paused`, `gpu_time`, `running_cap`, `gpus`, `memory`."""
    needed: int
    missing: int
    best_node: str
    holders: tuple[str, ...]
    sentence: str


def plan(state: State, at: Moment) -> list[Event]:
    """Starts, and changed waits, of everything that waits; the house's work goes first."""
    if state.clock.paused:
        return _waits(state, at, [])
    draft = state.copy()
    started: list[AttemptStarted] = []
    for job in waiting(state):
        free = _place(draft, job)
        if free is not None:
            event = _start(job, free)
            started.append(event)
            fold(draft, Entry(draft.seq, at, "", None, event))
    return [*started, *_waits(draft, at, [event.job for event in started])]


def waiting(state: State) -> list[Job]:
    """Queued jobs in the order they are tried: the house's first, then by submission."""
    queued = [job for job in state.jobs.values() if not job.attempt]
    return sorted(queued, key=lambda job: job.corner != HOUSE)


def _place(state: State, job: Job) -> Room | None:
    """The first node with room, unless the corner's own caps are in the way."""
    if _held_back(state, job) is not None:
        return None
    for free in room(state).values():
        if len(free.gpus) >= job.spec.gpus and free.memory >= job.spec.memory:
            return free
    return None


def _start(job: Job, free: Room) -> AttemptStarted:
    spec = job.spec
    hold = 0 if job.corner == HOUSE else spec.gpus * spec.limit
    return AttemptStarted(
        f"{job.job}.{job.attempts + 1}", job.job, job.corner, free.node, free.gpus[: spec.gpus], Bytes(spec.memory),
        Micros(spec.limit), GpuMicros(hold),
    )  # fmt: skip


def _waits(state: State, at: Moment, skip: list[str]) -> list[Event]:
    events: list[Event] = []
    for job in waiting(state):
        if job.job in skip:
            continue
        wait = explain(state, job.job, at)
        if (wait.resource, wait.holders) != job.wait:
            events.append(WaitChanged(job.job, job.corner, wait.resource, wait.holders))
    return events


def explain(state: State, job_id: str, at: Moment) -> Wait:
    """What a queued job waits for, in a fixed order: pause, own GPU-time, own running cap, GPUs, memory (S72)."""
    job = state.jobs[job_id]
    if state.clock.paused:
        return Wait("paused", 0, 0, "", (), "the competition is paused; nothing starts until it resumes")
    held_back = _held_back(state, job)
    return held_back if held_back is not None else _no_room(state, job)


def _held_back(state: State, job: Job) -> Wait | None:
    """A wait that comes from the corner's own caps, which count running jobs only (F14, S79)."""
    if job.corner == HOUSE:
        return None
    mine = [attempt for attempt in state.attempts.values() if attempt.corner == job.corner]
    account = state.accounts[job.corner, GPU]
    hold = job.spec.gpus * job.spec.limit
    if hold > account.left:
        holders = tuple(attempt.job for attempt in mine if attempt.hold)
        return Wait(
            "gpu_time", hold, hold - account.left, "", holders,
            f"GPU-time: it would hold {show_gpu_time(hold)}, {show_gpu_time(account.left)} is left and "
            f"{show_gpu_time(account.held)} is held by {_names(holders)}",
        )  # fmt: skip
    cap = state.rules.jobs.gpus_running
    used = sum(len(attempt.gpus) for attempt in mine)
    if used + job.spec.gpus > cap:
        holders = tuple(attempt.job for attempt in mine if attempt.gpus)
        return Wait(
            "running_cap", job.spec.gpus, used + job.spec.gpus - cap, "", holders,
            f"your running cap of {cap} GPUs: {used} run in {_names(holders)}, this job needs {job.spec.gpus}",
        )  # fmt: skip
    return None


def _no_room(state: State, job: Job) -> Wait:
    """The binding resource on the best node: the one that misses the fewest GPUs, then the least memory."""
    rooms = room(state)
    sizes = {node.name: node for node in state.rules.nodes}
    could = [
        free
        for free in rooms.values()
        if sizes[free.node].gpus >= job.spec.gpus and sizes[free.node].memory >= job.spec.memory
    ] or list(rooms.values())
    best = min(
        could,
        key=lambda free: (max(0, job.spec.gpus - len(free.gpus)), max(0, job.spec.memory - free.memory)),
    )
    on_best = [attempt for attempt in state.attempts.values() if attempt.node == best.node]
    short_gpus = job.spec.gpus - len(best.gpus)
    if short_gpus > 0:
        holders = tuple(attempt.job for attempt in on_best if attempt.gpus)
        sentence = f"GPUs: needs {job.spec.gpus}, best node {best.node} has {len(best.gpus)} free; held by {_held(state, holders)}"
        return Wait("gpus", job.spec.gpus, short_gpus, best.node, holders, sentence)
    holders = tuple(attempt.job for attempt in on_best)
    sentence = (
        f"memory: needs {show_size(job.spec.memory)}, best node {best.node} has {show_size(best.memory)}, "
        f"{len(best.gpus)} GPUs free; held by {_held(state, holders)}"
    )
    return Wait(
        "memory", job.spec.memory, max(0, job.spec.memory - best.memory), best.node, holders, sentence
    )


def _held(state: State, jobs: tuple[str, ...]) -> str:
    """Holders with the latest instant at which each must be gone: its time limit."""
    said = (
        f"{attempt.job} ({show_size(attempt.memory)}, at most {show_duration(attempt.limit)})"
        for attempt in state.attempts.values()
        if attempt.job in jobs
    )
    return ", ".join(said) or "nobody"


def _names(jobs: tuple[str, ...]) -> str:
    return ", ".join(jobs) or "nobody"
