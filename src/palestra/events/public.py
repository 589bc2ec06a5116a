"""What outsiders may see of an event: an entry and the roster in, a public event out, or None; what isn't named here is denied.

A public event has no bodies, paths of the host, process numbers, seeds or reasons of organisers. Entrants' own words in
it are masked: `mask` takes out every secret that is known, whatever is written between its characters, and whatever
looks like a key. Names come from the roster alone, so that an alias holds.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from palestra.events.base import Entry, Event
from palestra.events.corners import (
    EntrantAnnounced,
    EntrantFinished,
    EntrantRemoved,
    EntrantSeated,
    RestartAsked,
    SessionEnded,
    SessionStarted,
)
from palestra.events.exams import ExamFailed, ExamScored, ExamStarted
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded, JobSubmitted, WaitChanged
from palestra.events.masking import Secret, mask
from palestra.events.nominations import (
    CheckpointSealed,
    CopyFailed,
    CopyKept,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
    NominationWithdrawn,
)  # fmt: skip
from palestra.events.runs import (
    EndAsked,
    Paused,
    RefusalsCounted,
    Refused,
    ReportFrozen,
    Resumed,
    ServerStarted,
    ServerStopped,
    StageEntered,
)  # fmt: skip
from palestra.events.spend import CallCharged
from palestra.rules.units import Moment, show_dollars, show_duration, show_gpu_time, show_share, show_size

Mark = Literal["", "lora", "full", "bad", "rule"]
Unit = Literal["GPU", "slot"]
HOUSE = "house"
_STAGES = {
    "announced": "The competition is announced.",
    "running": "The competition is running.",
    "closing": "Time is up. Copies in flight are finished.",
    "judging": "Everything has stopped. The models are examined.",
    "results": "The results are in.",
}
_RESOURCES = {
    "paused": "the end of the pause",
    "gpu_time": "{unit}-time",
    "running_cap": "its own running cap",
    "gpus": "{unit}s",
    "memory": "memory",
}


class Roster(msgspec.Struct, frozen=True):
    """What publishing needs to know of a run."""

    seats: tuple[tuple[str, str], ...]
    """(corner, name as shown)."""
    secrets: tuple[Secret, ...] = ()
    unit: Unit = "GPU"

    def name(self, corner: str) -> str:
        """The corner's name as shown; of one that isn't on the roster, its letter."""
        return next((name for seat, name in self.seats if seat == corner), corner)


class PublicEvent(msgspec.Struct, frozen=True):
    """A line for spectators. Empty `text`: figures moved, nothing to tell."""

    seq: int
    at: Moment
    kind: str
    corner: str
    """Empty: it is about the whole run."""
    text: str = ""
    mark: Mark = ""
    about: str = ""
    """The job it leads to."""


def publish(entry: Entry, roster: Roster) -> PublicEvent | None:
    """The public side of an event; None for everything that isn't named here."""
    event = entry.event
    said = _run(event) or _seat(event) or _job(event, roster.unit) or _model(event)
    if said is None:
        return None
    text, mark = said
    corner = str(getattr(event, "corner", "")) or str(getattr(event, "target", "")).partition("-")[0]
    corner = corner if corner == HOUSE or any(corner == seat for seat, _ in roster.seats) else ""
    about = str(getattr(event, "job", ""))
    return PublicEvent(
        entry.seq, entry.at, type(event).__name__, corner, mask(text, roster.secrets), mark, about
    )


def show_time(amount: int, unit: Unit) -> str:
    """GPU-time in the unit of this run's nodes: a machine without GPUs has slots."""
    return show_gpu_time(amount).replace("GPU", unit)


def count(number: int, unit: str) -> str:
    """`1 slot`, `4 slots`."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


_Said = tuple[str, Mark]


def _run(event: Event) -> _Said | None:
    match event:
        case StageEntered(stage=stage):
            return _STAGES.get(stage, f"Stage: {stage}."), "rule"
        case Paused():
            return "Paused: no calls and no starts until it goes on.", "rule"
        case Resumed():
            return "It goes on.", "rule"
        case EndAsked():
            return "The organiser ends the running stage.", "rule"
        case ServerStarted():
            return "The arena’s server is up.", ""
        case ServerStopped():
            return "The arena’s server leaves; the record stays.", ""
        case ReportFrozen(name=name):
            return f"The {name} is frozen.", ""
    return None


def _seat(event: Event) -> _Said | None:
    match event:
        case EntrantSeated() as event:
            return f"takes corner {event.corner}, with {show_dollars(event.api_credit)} of API credit.", ""
        case EntrantAnnounced() as event:
            return f"{event.name} will take corner {event.corner}.", "rule"
        case EntrantRemoved():
            return "is taken out of the competition.", "rule"
        case RestartAsked():
            return "is started anew by the organiser.", ""
        case SessionStarted(session=session):
            return f"is at work: session {session}.", ""
        case SessionEnded(session=session, cause=cause):
            return f"session {session} ended: {cause}.", ""
        case EntrantFinished(note=note):
            return "is done for good." + (f" “{note}”" if note else ""), ""
        case Refused(code=code, message=message):
            return f"was refused, {code}: {message}", "bad"
        case RefusalsCounted(code=code, count=times):
            return f"was refused {'once' if times == 1 else f'{times} times'} more, {code}.", "bad"
        case CallCharged():
            return "", ""
    return None


def _job(event: Event, unit: Unit) -> _Said | None:
    match event:
        case JobSubmitted(corner=corner, purpose=purpose, job=job) if corner == HOUSE:
            what, _, target = purpose.partition(":")
            return (f"{job} validates {target}: it is served and asked." if what == "validate" else ""), ""
        case JobSubmitted(job=job, spec=spec):
            asked = f"{count(spec.gpus, unit)}, {show_size(spec.memory)}, at most {show_duration(spec.limit)}"
            return f"submits {job}, {spec.name}: {asked}.", ""
        case WaitChanged(job=job, resource=resource, blockers=blockers):
            thing = _RESOURCES.get(resource, resource).format(unit=unit)
            return f"{job} waits for {thing}" + (f", held by {', '.join(blockers)}." if blockers else "."), ""
        case AttemptStarted(corner=corner) if corner == HOUSE:
            return "", ""
        case AttemptStarted(job=job, node=node, gpus=gpus):
            place = f" with {count(len(gpus), unit)}" if gpus else ""
            return f"{job} starts on {node}{place}.", ""
        case AttemptEnded(job=job, end="preempted"):
            return f"{job} gave way and is queued again.", ""
        case AttemptEnded():
            return "", ""
        case JobEnded(corner=corner, end="completed") if corner == HOUSE:
            return "", ""
        case JobEnded(job=job, end=end, cause=cause):
            why = f", {_words(cause)}" if cause not in ("none", end) else ""
            return f"{job} ended: {_words(end)}{why}.", "" if end in ("completed", "cancelled") else "bad"
    return None


def _model(event: Event) -> _Said | None:
    match event:
        case CheckpointSealed(checkpoint=checkpoint, size=size, step=step):
            at_step = f" at step {step:,}" if step is not None else ""
            return f"seals {checkpoint}{at_step}, {show_size(size)}.", ""
        case NominationRequested(nomination=nomination, label=label, size=size):
            return f"nominates {nomination}{f', {label}' if label else ''}, {show_size(size)}.", ""
        case CopyKept(nomination=nomination, inspection=found, again=again):
            done = "has the weights of an earlier one" if again else "is copied"
            return f"{nomination} {done}: {_KINDS[found.kind]}.", ""
        case CopyFailed(nomination=nomination, code=code):
            return f"{nomination} could not be copied: {_words(code)}.", "bad"
        case NominationAccepted(nomination=nomination, current=current):
            stands = "is current" if current else "is accepted; a later one is current"
            return f"{nomination} {stands}.", "lora"
        case NominationRejected(nomination=nomination, code=code, message=message):
            return f"{nomination} is rejected, {code}: {message}", "bad"
        case NominationWithdrawn(nomination=nomination):
            return f"withdraws {nomination}.", ""
        case ExamStarted(target=target, n=n):
            return f"{_target(target)} is asked {n:,} hidden questions.", ""
        case ExamScored(target=target, correct=correct, n=n):
            return f"{_target(target)} scores {show_share(correct, n)}, {correct:,} of {n:,}.", "lora"
        case ExamFailed(target=target, code=code):
            return f"{_target(target)} could not be examined: {_words(code)}.", "bad"
    return None


def _target(target: str) -> str:
    return "The base model" if target == "base" else target


_KINDS = {"lora": "a LoRA adapter", "full": "a full model"}


def _words(code: str) -> str:
    return code.replace("_", " ")
