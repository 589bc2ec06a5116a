"""May this checkpoint be nominated, and how a nomination becomes current: in one step, after copy and validation."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from palestra.events.base import Event, clip
from palestra.events.jobs import JobSpec, JobSubmitted
from palestra.events.nominations import (
    AnswerSettings,
    CheckpointSealed,
    CopyFailed,
    CopyKept,
    CopyStarted,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
)  # fmt: skip
from palestra.events.runs import ObservationIgnored
from palestra.referee.observations import CopyBroke, CopyDone, Probed
from palestra.referee.repeat import fingerprint
from palestra.referee.requests import Nominate, SealCheckpoint
from palestra.referee.seats import seated
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.state.arena import Nomination, State, next_id
from palestra.state.nominations import VALIDATE, current
from palestra.state.queue import HOUSE

MOST_PENDING = 4
"""Nominations of one corner that may be copied and checked at a time."""
LONGEST_PROMPT = 2000
"""Characters of system prompt: the same for everyone, short enough to be an event's text."""


def seal(state: State, request: SealCheckpoint, at: Moment) -> list[Event] | Refusal:
    """Put a sealed folder on the record, whatever became of the job that made it (S37, S90)."""
    seat = seated(state, request.actor, at)
    if isinstance(seat, Refusal):
        return seat
    checkpoint = next_id(state, request.actor, "k")
    return [
        CheckpointSealed(
            checkpoint, request.actor, request.artifact, request.path, request.size, request.files, request.step,
            fingerprint(request),
        )
    ]  # fmt: skip


def nominate(state: State, request: Nominate, at: Moment) -> list[Event] | Refusal:
    """Requested; the old nomination stands until this one is copied and checked (S03)."""
    seat = seated(state, request.actor, at)
    if isinstance(seat, Refusal):
        return seat
    refusal = _settings(request.settings)
    if refusal is not None:
        return refusal
    mine = [one for one in state.nominations.values() if one.corner == request.actor]
    pending = [one for one in mine if one.state != "accepted"]
    if len(pending) >= MOST_PENDING:
        return Refusal(
            "too_many_pending",
            f"{len(pending)} of your nominations are being copied and checked; wait for one",
        )
    latest = max(mine, key=lambda one: one.number, default=None)
    if latest is not None and (latest.artifact, latest.settings) == (request.artifact, request.settings):
        word = "current already" if latest.state == "accepted" else "on its way already"
        return Refusal(
            "already_nominated",
            f"these weights with these answer settings are {word}, as {latest.nomination}",
        )
    return [
        NominationRequested(
            next_id(state, request.actor, "n"), request.actor, request.artifact, request.path, request.size,
            request.settings, request.label[:80], clip(request.note), request.step, fingerprint(request),
        )
    ]  # fmt: skip


def _settings(settings: AnswerSettings) -> Refusal | None:
    bounds = {"temperature": ("0", "2"), "top_p": ("0.01", "1"), "repetition_penalty": ("0.5", "2")}
    for field, (low, high) in bounds.items():
        text = getattr(settings, field)
        try:
            fits = Decimal(low) <= Decimal(text) <= Decimal(high)
        except InvalidOperation:
            fits = False
        if not fits:
            return Refusal(
                "bad_settings", f"settings.{field} = {text!r}; a decimal from {low} to {high}", subject=field
            )
    if not 1 <= settings.max_tokens <= 32_768:
        return Refusal(
            "bad_settings", f"settings.max_tokens = {settings.max_tokens}; 1 to 32768", subject="max_tokens"
        )
    if len(settings.system_prompt) > LONGEST_PROMPT:
        return Refusal(
            "bad_settings",
            f"settings.system_prompt has {len(settings.system_prompt)} characters; at most {LONGEST_PROMPT}",
            subject="system_prompt",
        )
    if len(settings.stop) > 4 or any(not 1 <= len(stop) <= 64 for stop in settings.stop):
        return Refusal("bad_settings", "settings.stop: at most 4 texts of 1 to 64 characters", subject="stop")
    return None


def follow(state: State) -> list[Event]:
    """What nominations need next: a copy, nothing (the weights are kept), or a validation by the house."""
    events: list[Event] = []
    for one in state.nominations.values():
        copy = f"{one.nomination}.c1"
        if one.state == "requested":
            events.append(CopyStarted(copy, one.nomination, one.corner))
        elif one.state == "kept":
            events.append(house_job(state, VALIDATE + one.nomination, f"validate {one.nomination}"))
            break  # one at a time: the next id is only known once this one is folded
    return events


def house_job(state: State, purpose: str, name: str) -> JobSubmitted:
    """A job of the arena's own: started through the same queue, seen by all, charged to nobody."""
    serving = state.rules.serving
    spec = JobSpec(
        name=name, argv=(purpose,), gpus=serving.gpus, memory=serving.memory, limit=serving.longest
    )
    return JobSubmitted(next_id(state, HOUSE, "j"), HOUSE, spec, purpose)


def _by_copy(state: State, copy: str) -> Nomination | None:
    return next(
        (one for one in state.nominations.values() if one.copy == copy and one.state == "copying"), None
    )


def copied(state: State, seen: CopyDone) -> list[Event]:
    """The artifact is kept, if it is the one that was named."""
    one = _by_copy(state, seen.copy)
    if one is None:
        return [ObservationIgnored(seen.copy, "CopyDone")]
    if seen.artifact != one.artifact:
        return broke(
            state, CopyBroke(seen.copy, "source_changed", f"copied {seen.artifact}, nominated {one.artifact}")
        )
    return [
        CopyKept(seen.copy, one.nomination, one.corner, seen.artifact, seen.size, seen.inspection, seen.again)
    ]


def broke(state: State, seen: CopyBroke) -> list[Event]:
    """No copy, no nomination; the old one stands."""
    one = _by_copy(state, seen.copy)
    if one is None:
        return [ObservationIgnored(seen.copy, "CopyBroke")]
    evidence = clip(seen.evidence)
    return [
        CopyFailed(seen.copy, one.nomination, one.corner, seen.code, evidence),
        NominationRejected(one.nomination, one.corner, seen.code, evidence),
    ]


def probed(state: State, seen: Probed) -> list[Event]:
    """Accept what was served and answered; the latest request wins, whichever is ready first (S60)."""
    one = state.nominations.get(seen.nomination)
    if one is None or one.state != "validating" or one.job in state.jobs:
        return [ObservationIgnored(seen.nomination, "Probed")]
    if not seen.served:
        return [NominationRejected(one.nomination, one.corner, "not_served", clip(seen.error))]
    if seen.probes and seen.empty == seen.probes:
        return [
            NominationRejected(
                one.nomination, one.corner, "empty_answers", f"all {seen.probes} probes got an empty answer"
            )
        ]
    if seen.probes and seen.looping == seen.probes:
        return [
            NominationRejected(
                one.nomination,
                one.corner,
                "looping_answers",
                f"all {seen.probes} probes got an endless, repeating answer",
            )
        ]
    now = current(state, one.corner)
    latest = now is None or now.number < one.number
    return [
        NominationAccepted(
            one.nomination,
            one.corner,
            latest,
            seen.probes,
            seen.stopped,
            seen.empty,
            seen.looping,
            seen.differing,
        )
    ]


def out_of_time(state: State) -> list[Event]:
    """The closing stage is over: what isn't checked by now is not judged."""
    return [
        NominationRejected(
            one.nomination,
            one.corner,
            "closing_over",
            "not copied and checked before the closing stage ended",
        )
        for one in state.nominations.values()
        if one.state != "accepted"
    ]
