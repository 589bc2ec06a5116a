"""Events as one line each, for people who follow a run in a terminal: an entry in, a sentence or None out."""

from __future__ import annotations

from palestra.events.base import Entry
from palestra.events.corners import (
    EntrantAnnounced,
    EntrantFinished,
    EntrantRemoved,
    EntrantSeated,
    RestartAsked,
    SessionEnded,
    SessionStarted,
    TokenRotated,
)
from palestra.events.exams import ExamFailed, ExamScored, ExamStarted
from palestra.events.jobs import AttemptStarted, JobEnded, JobSubmitted, WaitChanged
from palestra.events.nominations import (
    CopyKept,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
)  # fmt: skip
from palestra.events.runs import (
    AlarmRaised,
    Paused,
    Refused,
    Resumed,
    ServerStarted,
    StageEntered,
    TailRepaired,
)
from palestra.report.visible import visible
from palestra.rules.units import show_dollars, show_duration, show_gpu_time, show_share, show_size
from palestra.state.queue import HOUSE

_WAITS = {
    "paused": ": the competition is paused",
    "gpu_time": " for its GPU-time",
    "running_cap": " for its running cap",
    "gpus": " for GPUs",
}
"""What a job waits for, in words; others are words already."""


def sentence(entry: Entry) -> str | None:
    """What a spectator would want to hear of, on one line; None for what is only book-keeping."""
    said = _run(entry) or _job(entry) or _model(entry)
    return None if said is None else visible(said)


def _run(entry: Entry) -> str | None:
    match entry.event:
        case EntrantSeated() as event:
            who = f"{event.name} ({event.lab})" if event.lab else event.name
            return f"{event.corner} {who} takes its corner: {show_dollars(event.api_credit)}, {show_gpu_time(event.gpu_time)}"
        case EntrantAnnounced() as event:
            who = f"{event.name} ({event.lab})" if event.lab else event.name
            return f"{event.corner} {who} is announced by {event.by}"
        case EntrantRemoved() as event:
            return f"{event.corner} is taken out by {event.by}" + (
                f": {event.reason}" if event.reason else ""
            )
        case TokenRotated() as event:
            return f"{event.corner} has a new token, by {event.by}"
        case RestartAsked() as event:
            return f"{event.corner} is started anew by {event.by}" + (
                f": {event.reason}" if event.reason else ""
            )
        case StageEntered() as event:
            return f"stage: {event.stage} ({event.why})"
        case ServerStarted() as event:
            return f"the server is up (pid {event.pid})"
        case Paused(by=by, reason=reason):
            return f"paused by {by}" + (f": {reason}" if reason else "")
        case Resumed(by=by):
            return f"resumed by {by}"
        case TailRepaired(size=size, kept_as=kept_as):
            return f"the journal's end was repaired: {size} bytes of an interrupted write are in {kept_as}"
        case SessionStarted() as event:
            return f"{event.corner} starts ({event.session}, {event.harness})"
        case SessionEnded() as event:
            known = event.exit_code is not None and event.cause != "stopped"
            code = f", exit code {event.exit_code}" if known else ""
            return f"{event.corner} session {event.session} {event.cause}{code}"
        case EntrantFinished() as event:
            return f"{event.corner} has finished" + (f": {event.note}" if event.note else "")
        case Refused() as event:
            return f"{event.corner} refused, {event.code}: {event.message}"
        case AlarmRaised() as event:
            return f"ALARM {event.alarm}: {event.text}"
    return None


def _job(entry: Entry) -> str | None:
    match entry.event:
        case JobSubmitted(corner=corner, spec=spec, job=job) if corner != HOUSE:
            gpus = f"{spec.gpus} GPU" + ("" if spec.gpus == 1 else "s")
            return f"{corner} submits {job} {spec.name!r}: {gpus}, {show_size(spec.memory)}, at most {show_duration(spec.limit)}"
        case AttemptStarted(corner=corner) as event if corner != HOUSE:
            gpus = ("GPU " if len(event.gpus) == 1 else "GPUs ") + ", ".join(map(str, event.gpus))
            return f"{corner} {event.attempt} runs on {event.node}, {gpus}"
        case WaitChanged(corner=corner) as event if corner != HOUSE:
            held = f", held by {', '.join(event.blockers)}" if event.blockers else ""
            return f"{corner} {event.job} waits{_WAITS.get(event.resource, f' for {event.resource}')}{held}"
        case JobEnded(corner=corner) as event if corner != HOUSE:
            return f"{corner} {event.job} {event.end.replace('_', ' ')}" + (
                f" ({event.cause})" if event.cause != "none" else ""
            )
    return None


def _model(entry: Entry) -> str | None:
    match entry.event:
        case NominationRequested() as event:
            return f"{event.corner} nominates {event.path} as {event.nomination}, {show_size(event.size)}"
        case CopyKept() as event:
            word = "was kept already" if event.again else "is copied"
            return f"{event.corner} {event.nomination} {word}: {event.inspection.kind}, relative change {event.inspection.relative_delta:.2e}"
        case NominationAccepted() as event:
            word = "is current" if event.current else "is accepted, but a later one is current"
            return f"{event.corner} {event.nomination} {word}; {event.stopped} of {event.probes} probes ended by themselves"
        case NominationRejected() as event:
            return f"{event.corner} {event.nomination} is rejected, {event.code}: {event.message}"
        case ExamStarted() as event:
            return f"exam of {event.target}: {event.n:,} hidden questions"
        case ExamScored() as event:
            return f"{event.target} scores {show_share(event.correct, event.n)}, {event.correct:,} of {event.n:,}"
        case ExamFailed() as event:
            return f"{event.target} could not be examined, {event.code}: {event.evidence}"
    return None
