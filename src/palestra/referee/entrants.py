"""Entrants that join, leave or are started anew while the run goes on: an organiser's requests in, events out."""

from __future__ import annotations

import string

from palestra.events.base import Event, clip
from palestra.events.corners import (
    EntrantAnnounced,
    EntrantRemoved,
    EntrantSeated,
    RestartAsked,
    SessionStopAsked,
    TokenRotated,
)
from palestra.events.nominations import NominationRejected
from palestra.referee.repeat import fingerprint
from palestra.referee.requests import AddEntrant, RemoveEntrant, RestartEntrant, RotateToken
from palestra.referee.seats import over
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.state.arena import Corner, State
from palestra.state.clock import stage_end

LETTERS = string.ascii_uppercase
HOUSE_HARNESS = "house"


def add(state: State, request: AddEntrant, at: Moment) -> list[Event] | Refusal:
    """The next free letter; the same allowances, a start of its own, the common end (S53)."""
    if state.clock.stage not in ("announced", "running") or over(state, at):
        return Refusal("stage_over", "the running stage is over; nobody can join any more")
    end = stage_end(state)
    if state.clock.stage == "running" and end is not None and request.starts >= end:
        return Refusal("too_late", "it would start at or after the end of the running stage", subject="start")
    corner = next_corner(state)
    if not corner:
        return Refusal("no_corner_left", f"all {len(LETTERS)} corners are taken")
    taken = {one.name.casefold() for one in state.corners.values()}
    taken |= {one.name.casefold() for one in state.announced.values()}
    if request.name.casefold() in taken:
        return Refusal("name_taken", f"an entrant {request.name!r} is in already", subject="name")
    if request.harness == HOUSE_HARNESS and state.rules.model(request.model) is None:
        names = ", ".join(model.name for model in state.rules.models)
        return Refusal(
            "unknown_model", f"no model {request.model!r} here; there are: {names}", subject="model"
        )
    return [
        EntrantAnnounced(
            corner=corner,
            name=request.name,
            lab=request.lab,
            harness=request.harness,
            model=request.model,
            starts=Moment(max(at, request.starts)),
            by=request.actor,
            command=request.command,
            sealed_name=request.sealed_name,
            asked=fingerprint(request),
        )
    ]


def next_corner(state: State) -> str:
    """The letter that the next entrant gets; empty when all are given out."""
    number = state.counters.get(("run", "corner"), 0)
    return LETTERS[number] if number < len(LETTERS) else ""


def due(state: State, at: Moment) -> list[Event]:
    """Announced entrants whose start has come take their corners."""
    if state.clock.stage != "running" or over(state, at):
        return []
    allowance = state.rules.allowance
    return [
        EntrantSeated(
            corner=one.corner,
            name=one.name,
            lab=one.lab,
            harness=one.harness,
            model=one.model,
            api_credit=allowance.api_credit,
            gpu_time=allowance.gpu_time,
            sealed_name=one.sealed_name,
            command=one.command,
        )
        for one in state.announced.values()
        if at >= one.starts
    ]


def void(state: State) -> list[Event]:
    """Nominations under way of an entrant that was taken out are not judged."""
    return [
        NominationRejected(one.nomination, one.corner, "entrant_removed", "the entrant was taken out")
        for one in state.nominations.values()
        if state.corners[one.corner].removed
    ]


def remove(state: State, request: RemoveEntrant, at: Moment) -> list[Event] | Refusal:
    """Out, before or after its start."""
    seat = state.corners.get(request.corner)
    if seat is None and request.corner not in state.announced:
        return _unknown(request.corner)
    if seat is not None and seat.removed:
        return Refusal("removed", f"corner {request.corner} was taken out already")
    if state.clock.stage in ("judging", "results"):
        return Refusal("stage_over", "exams have begun; nobody can be taken out any more")
    return [EntrantRemoved(request.corner, request.actor, clip(request.reason), fingerprint(request))]


def rotate(state: State, request: RotateToken, at: Moment) -> list[Event] | Refusal:
    """The agent that runs with the old token is started again with the new one."""
    seat = state.corners.get(request.corner)
    if seat is None:
        return _unknown(request.corner)
    rotated = TokenRotated(request.corner, request.actor, fingerprint(request))
    return [rotated, *_stop_session(state, seat, "token_rotated")]


def restart(state: State, request: RestartEntrant, at: Moment) -> list[Event] | Refusal:
    """A running agent is stopped first; one that gave up, or was given up on, gets a new start."""
    seat = state.corners.get(request.corner)
    if seat is None:
        return _unknown(request.corner)
    if seat.finished is not None:
        return Refusal("finished", f"corner {request.corner} has finished; that is final")
    asked = RestartAsked(request.corner, request.actor, clip(request.reason), fingerprint(request))
    return [asked, *_stop_session(state, seat, "restart")]


def _stop_session(state: State, seat: Corner, why: str) -> list[Event]:
    return [
        SessionStopAsked(session.session, session.corner, why)
        for session in state.sessions.values()
        if session.corner == seat.corner and not session.stopping
    ]


def _unknown(corner: str) -> Refusal:
    return Refusal("no_such_corner", f"nobody sits in corner {corner[:8]!r}", subject="corner")
