"""The cluster as drawn: attempts and what waits in; nodes, their blocks of GPUs and their memory on one width, and the queue out."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.events.public import Unit
from palestra.referee.schedule import Wait, explain, waiting
from palestra.rules.competition import Node
from palestra.rules.units import show_size
from palestra.state.arena import Attempt, Job, State
from palestra.state.queue import HOUSE, room
from palestra.web.pages.figures import per_cent, scale_of, span, t, unit_of, units
from palestra.web.pages.source import Source
from palestra.web.pages.text import line

_TAGS = {
    "paused": "paused",
    "gpu_time": "{unit}-time",
    "running_cap": "running cap",
    "gpus": "{unit}s",
    "memory": "memory",
}


class Block(msgspec.Struct, frozen=True):
    """One attempt on a node."""

    corner: str
    job: str
    gpus: int
    width: float
    """Of the node's memory, in per cent."""
    used: float | None
    """Of what it reserved, in per cent; None where it isn't measured."""
    said: str


class Drawn(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    kind: str
    gpus: int
    busy: int
    blocks: tuple[Block, ...]
    free: int
    stranded: bool
    memory: str
    reserved: str
    used: str
    left: str


class Waiting(msgspec.Struct, frozen=True):
    """One waiting job with its reason."""

    corner: str
    job: str
    name: Markup
    asks: str
    waited: str
    since: str
    tag: str
    own: bool
    """It waits for something of its own corner's, not for others."""
    sentence: str
    would_start: str
    place_by: str
    place_why: str


def nodes(source: Source) -> tuple[Drawn, ...]:
    """Every declared node."""
    state = source.view().state
    blocked = [explain(state, job.job, source.view().at) for job in waiting(state)]
    return tuple(_draw(source, state, node, blocked) for node in state.rules.nodes)


def _draw(source: Source, state: State, node: Node, blocked: list[Wait]) -> Drawn:
    here = sorted(
        (one for one in state.attempts.values() if one.node == node.name),
        key=lambda one: one.gpus or (node.gpus,),
    )
    seen = {one.attempt: source.used(one.attempt) for one in here}
    reserved = sum(one.memory for one in here)
    used = sum(peak for peak in seen.values() if peak)
    free = node.gpus - sum(len(one.gpus) for one in here)
    stranded = free > 0 and any(wait.resource == "memory" and wait.best_node == node.name for wait in blocked)
    return Drawn(
        name=node.name,
        kind=node.gpu_kind,
        gpus=node.gpus,
        busy=node.gpus - free,
        blocks=tuple(_block(node, one, seen[one.attempt], unit_of(state)) for one in here),
        free=free,
        stranded=stranded,
        memory=show_size(node.memory),
        reserved=show_size(reserved),
        used=show_size(used) if used else "",
        left=show_size(node.memory - reserved),
    )


def _block(node: Node, one: Attempt, peak: int | None, unit: Unit) -> Block:
    said = f"{one.job}: {units(len(one.gpus), unit)}, {show_size(one.memory)} reserved"
    if peak:
        said += f", {show_size(peak)} used at most so far"
    share = per_cent(peak / one.memory) if peak and one.memory else None
    return Block(one.corner, one.job, len(one.gpus), per_cent(one.memory / node.memory), share, said)


def queue(source: Source) -> tuple[Waiting, ...]:
    """What waits, in the order in which it is tried."""
    view = source.view()
    state, secrets = view.state, source.secrets()
    found = []
    for job in waiting(state):
        wait = explain(state, job.job, view.at)
        unit = unit_of(state)
        by, why = _place_by(state, job, wait)
        found.append(
            Waiting(
                corner=job.corner,
                job=job.job,
                name=line(house_work(job) or job.spec.name, secrets, 60),
                asks=f"{units(job.spec.gpus, unit)}, {show_size(job.spec.memory)}",
                waited=span(view.at - job.submitted),
                since=t(state, job.submitted),
                tag=_TAGS.get(wait.resource, wait.resource).format(unit=unit),
                own=wait.resource in ("running_cap", "gpu_time"),
                sentence=sentence(state, job, wait),
                would_start=_would_start(state, wait),
                place_by=by,
                place_why=why,
            )
        )
    return tuple(found)


def house_work(job: Job) -> str:
    """What a job of the arena's own does; empty for an entrant's."""
    if job.corner != HOUSE:
        return ""
    what, _, target = job.purpose.partition(":")
    return "examines a model" if what == "exam" else f"validates {target}"


def sentence(state: State, job: Job, wait: Wait) -> str:
    """Why a job waits, for everyone: need, best node, what is free there, who holds it."""
    unit = unit_of(state)
    held = f", held by {_holders(state, wait)}" if wait.holders else ""
    free = room(state).get(wait.best_node)
    match wait.resource:
        case "paused":
            return "The competition is paused; nothing starts until it goes on."
        case "gpu_time":
            scale = scale_of(state)
            have = scale.time(max(0, wait.needed - wait.missing))
            held = f"; {_holders(state, wait)} holds the rest until it ends" if wait.holders else ""
            return f"Would hold {scale.time(wait.needed)} {scale.short}, and {have} are free{held}."
        case "running_cap":
            cap = state.rules.jobs.gpus_running
            return f"Its corner may run {units(cap, unit)} at once{held}."
        case "gpus":
            number = len(free.gpus) if free else 0
            return f"Needs {units(wait.needed, unit)} on one node; best node {wait.best_node}: {number} free{held}."
    left = show_size(free.memory) if free else "0 B"
    here = units(len(free.gpus), unit) if free else "none"
    return f"Needs {show_size(wait.needed)}; best node {wait.best_node}: {here} free, {left} left{held}."


def _holders(state: State, wait: Wait) -> str:
    """By corner: `B (B-j2, B-j3), the house`."""
    by: dict[str, list[str]] = {}
    for job in wait.holders:
        corner = state.jobs[job].corner if job in state.jobs else job.partition("-")[0]
        by.setdefault(corner, []).append(job)
    said = [
        "the house" if corner == HOUSE else f"{state.corners[corner].name} ({', '.join(jobs)})"
        for corner, jobs in by.items()
    ]
    return ", ".join(said)


def _would_start(state: State, wait: Wait) -> str:
    if wait.resource == "memory" and 0 < wait.missing < wait.needed:
        return f"Would start now with {show_size(wait.needed - wait.missing)}."
    if wait.resource == "gpus" and 0 < wait.missing < wait.needed:
        return f"Would start now with {units(wait.needed - wait.missing, unit_of(state))}."
    return ""


def _place_by(state: State, job: Job, wait: Wait) -> tuple[str, str]:
    """When room is made at the latest: the holders' time limits, taken one by one."""
    if wait.resource not in ("gpus", "memory"):
        return "", ""
    free = room(state).get(wait.best_node)
    if free is None:
        return "", ""
    gpus, memory = len(free.gpus), free.memory
    here = [one for one in state.attempts.values() if one.node == wait.best_node]
    for one in sorted(here, key=lambda one: one.started + one.limit):
        gpus, memory = gpus + len(one.gpus), memory + one.memory
        if gpus >= job.spec.gpus and memory >= job.spec.memory:
            return t(state, one.started + one.limit), f"at the latest, when {one.job} reaches its limit"
    return "", ""
