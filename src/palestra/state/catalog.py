"""What pages, `arena jobs` and reports list: everything that ever was, as cards. The referee never reads it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from palestra.events.base import Entry
from palestra.events.corners import EntrantRemoved, SessionEnded, SessionStarted
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded, JobSpec, JobSubmitted, StopAsked
from palestra.events.nominations import (
    AnswerSettings,
    CopyKept,
    CopyStarted,
    Inspection,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
    NominationWithdrawn,
)  # fmt: skip
from palestra.events.runs import StageEntered
from palestra.events.spend import CallCharged
from palestra.rules.units import Digest, Moment
from palestra.state.arena import State


class AttemptCard(msgspec.Struct, frozen=True):
    """One run of a job, as listed."""

    attempt: str
    node: str
    gpus: tuple[int, ...]
    placed: Moment
    stopping: str = ""
    ended: AttemptEnded | None = None


class JobCard(msgspec.Struct, frozen=True):
    """A job, as listed."""

    job: str
    corner: str
    spec: JobSpec
    purpose: str
    submitted: Moment
    attempts: tuple[AttemptCard, ...] = ()
    ended: JobEnded | None = None
    ended_at: Moment | None = None


NominationState = Literal["requested", "copying", "validating", "accepted", "rejected", "withdrawn"]


class NominationCard(msgspec.Struct, frozen=True):
    """A nomination, as listed. Requested, copied and validated are separate times (S04)."""

    nomination: str
    corner: str
    artifact: Digest
    settings: AnswerSettings
    label: str
    note: str
    step: int | None
    requested: Moment
    state: NominationState = "requested"
    copied: Moment | None = None
    again: bool = False
    """The weights were kept already: new settings only (S67)."""
    inspection: Inspection | None = None
    decided: Moment | None = None
    current: bool = False
    accepted: NominationAccepted | None = None
    code: str = ""
    message: str = ""


class SessionCard(msgspec.Struct, frozen=True):
    """One life of an agent's process."""

    session: str
    corner: str
    started: Moment
    ended: Moment | None = None
    end: SessionEnded | None = None


class Tally(msgspec.Struct, frozen=True):
    """Counts of a corner's calls and steps."""

    calls: int = 0
    estimated: int = 0
    steps: int = 0


class Catalog(msgspec.Struct):
    """Cards by id, in the order they came."""

    jobs: dict[str, JobCard] = {}
    nominations: dict[str, NominationCard] = {}
    sessions: dict[str, SessionCard] = {}
    tallies: dict[str, Tally] = {}
    stages: dict[str, Moment] = {}


def fold(catalog: Catalog, entry: Entry) -> Catalog:
    """Take one event in; returns the catalogue it was given."""
    at = entry.at
    match entry.event:
        case JobSubmitted() as event:
            catalog.jobs[event.job] = JobCard(event.job, event.corner, event.spec, event.purpose, at)
        case AttemptStarted() as event:
            card = AttemptCard(event.attempt, event.node, event.gpus, at)
            job = catalog.jobs[event.job]
            catalog.jobs[event.job] = replace(job, attempts=(*job.attempts, card))
        case StopAsked() as event:
            _last(catalog, event.job, stopping=event.why)
        case AttemptEnded() as event:
            _last(catalog, event.job, ended=event)
        case JobEnded() as event:
            catalog.jobs[event.job] = replace(catalog.jobs[event.job], ended=event, ended_at=at)
        case SessionStarted() as event:
            catalog.sessions[event.session] = SessionCard(event.session, event.corner, at)
        case SessionEnded() as event:
            card_now = catalog.sessions[event.session]
            catalog.sessions[event.session] = replace(card_now, ended=at, end=event)
        case CallCharged() as event:
            tally = catalog.tallies.get(event.corner, Tally())
            catalog.tallies[event.corner] = Tally(
                tally.calls + 1, tally.estimated + event.estimated, tally.steps + event.steps
            )
        case StageEntered(stage=stage):
            catalog.stages[stage] = at
        case _:
            _fold_nomination(catalog, entry)
    return catalog


def _last(catalog: Catalog, job: str, **fields: object) -> None:
    card = catalog.jobs[job]
    last = replace(card.attempts[-1], **fields)
    catalog.jobs[job] = replace(card, attempts=(*card.attempts[:-1], last))


def _fold_nomination(catalog: Catalog, entry: Entry) -> None:
    at = entry.at
    match entry.event:
        case NominationRequested() as event:
            catalog.nominations[event.nomination] = NominationCard(
                event.nomination,
                event.corner,
                event.artifact,
                event.settings,
                event.label,
                event.note,
                event.step,
                at,
            )
        case CopyStarted(nomination=nomination):
            _change(catalog, nomination, state="copying")
        case CopyKept() as event:
            _change(
                catalog,
                event.nomination,
                state="validating",
                copied=at,
                again=event.again,
                inspection=event.inspection,
            )
        case NominationRejected() as event:
            _change(
                catalog,
                event.nomination,
                state="rejected",
                decided=at,
                code=event.code,
                message=event.message,
            )
        case NominationAccepted() as event:
            if event.current:
                _nothing_current(catalog, event.corner)
            _change(
                catalog,
                event.nomination,
                state="accepted",
                decided=at,
                current=event.current,
                accepted=event,
            )
        case EntrantRemoved(corner=corner):
            _nothing_current(catalog, corner)
        case NominationWithdrawn() as event:
            _change(catalog, event.nomination, state="withdrawn", current=False)
        case _:
            pass


def _nothing_current(catalog: Catalog, corner: str) -> None:
    for card in catalog.nominations.values():
        if card.corner == corner and card.current:
            _change(catalog, card.nomination, current=False)


def _change(catalog: Catalog, nomination: str, **fields: object) -> None:
    catalog.nominations[nomination] = replace(catalog.nominations[nomination], **fields)


class View(msgspec.Struct, frozen=True):
    """What is so now, for whoever shows it. Read it at once; the desk goes on folding into it."""

    state: State
    catalog: Catalog
    at: Moment
