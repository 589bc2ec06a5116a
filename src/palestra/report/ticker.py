"""Events as one line each, for people who follow a run in a terminal: an entry and the state in, a sentence or None out."""

from __future__ import annotations

from palestra.events.base import Entry
from palestra.events.corners import EntrantFinished, EntrantSeated, SessionEnded, SessionStarted
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
from palestra.rules.units import show_dollars, show_duration, show_gpu_time, show_share, show_size
from palestra.state.queue import HOUSE


def sentence(entry: Entry) -> str | None:
    """What a spectator would want to hear of; None for what is only book-keeping."""
    match entry.event:
        case EntrantSeated() as event:
            who = f"{event.name} ({event.lab})" if event.lab else event.name
            return f"{event.corner} {who} takes its corner: {show_dollars(event.api_credit)}, {show_gpu_time(event.gpu_time)}"
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
            return f"{event.corner} session {event.session} {event.cause}, exit code {event.exit_code}"
        case EntrantFinished() as event:
            return f"{event.corner} has finished" + (f": {event.note}" if event.note else "")
        case Refused() as event:
            return f"{event.corner} refused, {event.code}: {event.message}"
        case AlarmRaised() as event:
            return f"ALARM {event.alarm}: {event.text}"
    return _job(entry) or _model(entry)


def _job(entry: Entry) -> str | None:
    match entry.event:
        case JobSubmitted(corner=corner, spec=spec, job=job) if corner != HOUSE:
            return f"{corner} submits {job} {spec.name!r}: {spec.gpus} GPU, {show_size(spec.memory)}, at most {show_duration(spec.limit)}"
        case AttemptStarted(corner=corner) as event if corner != HOUSE:
            return f"{corner} {event.attempt} runs on {event.node}, GPUs {', '.join(map(str, event.gpus))}"
        case WaitChanged(corner=corner) as event if corner != HOUSE:
            return f"{corner} {event.job} waits for {event.resource}" + (
                f", held by {', '.join(event.blockers)}" if event.blockers else ""
            )
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
