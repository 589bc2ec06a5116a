"""Entering stages by the clock, pauses, and what a stage's end does to everything that still runs."""

from __future__ import annotations

from palestra.events.base import Event, clip
from palestra.events.corners import SessionStopAsked
from palestra.events.jobs import Cause, StopAsked
from palestra.events.runs import (
    AlarmCleared,
    AlarmRaised,
    EndAsked,
    Paused,
    Resumed,
    ServerStarted,
    ServerStopped,
    StageEntered,
)
from palestra.referee.jobs import ended
from palestra.referee.observations import ServerDown, ServerUp
from palestra.referee.repeat import fingerprint
from palestra.referee.requests import EndRun, Pause, Resume
from palestra.referee.spend import died
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.state.arena import Job, State
from palestra.state.clock import stage_end
from palestra.state.exams import EXAM
from palestra.state.nominations import VALIDATE
from palestra.state.queue import HOUSE

STUCK = "closing_stuck:run"
BY_SERVER = "server"
"""Who paused, when the server itself did because it was stopped; the next server resumes."""


def pause(state: State, request: Pause, at: Moment) -> list[Event] | Refusal:
    """An organiser's pause."""
    if state.clock.paused:
        return Refusal("already_paused", f"paused already, by {state.clock.paused_by}")
    if state.clock.stage == "results":
        return Refusal("stage_over", "the results are out; there is nothing left to pause")
    return [Paused(request.actor, clip(request.reason), fingerprint(request))]


def resume(state: State, request: Resume, at: Moment) -> list[Event] | Refusal:
    """An organiser's go-ahead."""
    if not state.clock.paused:
        return Refusal("not_paused", "the competition isn't paused")
    return [Resumed(request.actor, fingerprint(request))]


def end(state: State, request: EndRun, at: Moment) -> list[Event] | Refusal:
    """Finish the running stage now, by rule."""
    if state.clock.stage not in ("announced", "running"):
        return Refusal("stage_over", f"the running stage is over already; the stage is {state.clock.stage}")
    return [EndAsked(request.actor, clip(request.reason), fingerprint(request))]


def server_up(state: State, seen: ServerUp, at: Moment) -> list[Event]:
    """A server takes over: the calls of a dead one are charged at their ceiling, its own pause is over."""
    events: list[Event] = [ServerStarted(seen.pid, seen.release)]
    events += [died(call) for call in state.calls.values()]
    if state.clock.paused and state.clock.paused_by == BY_SERVER:
        events.append(Resumed(BY_SERVER))
    return events


def server_down(state: State, seen: ServerDown, at: Moment) -> list[Event]:
    """`stop`: pause and have everything of ours stopped, to go on later. `gone`: the process leaves now."""
    if seen.how == "gone":
        return [ServerStopped(seen.pid, seen.how)] if state.clock.server == seen.pid else []
    events: list[Event] = []
    if not state.clock.paused and state.clock.stage != "results":
        events.append(Paused(BY_SERVER, "the server was stopped"))
    return events + _stop_all(state, "server_stop", BY_SERVER, corners=None)


def enter(state: State, at: Moment) -> list[Event]:
    """The next stage, when its time has come or nothing is left to wait for."""
    clock, due = state.clock, stage_end(state)
    late = due is not None and at >= due
    match clock.stage:
        case "announced" if late and not clock.paused:
            return [StageEntered("running", "the clock")]
        case "running":
            done = not state.announced and all(seat.finished is not None for seat in state.corners.values())
            if clock.end_asked:
                return [StageEntered("closing", "an organiser ended the stage")]
            if late:
                return [StageEntered("closing", "the clock")]
            if done and state.rules.stages.end_when_all_finished:
                return [StageEntered("closing", "every entrant has finished")]
        case "closing":
            pending = any(nomination.state != "accepted" for nomination in state.nominations.values())
            busy = bool(state.sessions or state.calls) or any(
                job.corner != HOUSE for job in state.jobs.values()
            )
            if not busy and not pending:
                done_waiting: list[Event] = [StageEntered("judging", "nothing is left to copy or to check")]
                return [*done_waiting, AlarmCleared(STUCK)] if STUCK in state.alarms else done_waiting
            if late and busy and STUCK not in state.alarms:
                return [
                    AlarmRaised(STUCK, f"the closing stage is over, but these haven't gone: {_names(state)}")
                ]
        case "judging" if not state.jobs:
            if state.exams and all(sitting.over for sitting in state.exams.values()):
                return [StageEntered("results", "every exam is over")]
            if late and not state.exams:
                return [StageEntered("results", "the clock; no exam was started")]
    return []


def _names(state: State) -> str:
    """What still runs or is open for entrants."""
    jobs = [job.job for job in state.jobs.values() if job.corner != HOUSE]
    return ", ".join([*state.sessions, *jobs, *state.calls])


def ends_by_time(state: State) -> bool:
    """Whether reaching the stage's end changes something; what waits for copies, calls or processes doesn't wait for a clock."""
    match state.clock.stage:
        case "announced":
            return not state.clock.paused
        case "closing":
            pending = any(nomination.state != "accepted" for nomination in state.nominations.values())
            return pending or STUCK not in state.alarms
        case "judging":
            unscored = any(not sitting.over for sitting in state.exams.values())
            return unscored or not (state.exams or state.jobs)
    return True


def stop_leftovers(state: State) -> list[Event]:
    """Whatever still runs or waits for a corner that finished, or after the running stage, is ended by rule."""
    if state.clock.stage == "announced":
        return []
    void = [job for job in state.jobs.values() if job.corner == HOUSE and not _wanted(state, job)]
    gone = None if state.clock.stage != "running" else {
        corner.corner for corner in state.corners.values() if corner.finished is not None
    }  # fmt: skip
    events: list[Event] = [
        ended(job, "cancelled", "stage_end")
        for job in state.jobs.values()
        if not job.attempt and job.corner != HOUSE and (gone is None or job.corner in gone)
    ]
    events += [ended(job, "cancelled", "cancelled") for job in void if not job.attempt]
    events += [
        StopAsked(job.attempt, job.job, job.corner, "cancelled", "rule")
        for job in void
        if job.attempt and state.attempts[job.attempt].stopping == "none"
    ]
    return events + _stop_all(state, "stage_end", "clock", gone)


def _wanted(state: State, job: Job) -> bool:
    """Whether anyone waits for what a house job finds out: its nomination or exam may be settled without it."""
    if job.purpose.startswith(VALIDATE):
        one = state.nominations.get(job.purpose.removeprefix(VALIDATE))
        return one is not None and one.state == "validating"
    return not state.exams[job.purpose.removeprefix(EXAM)].over


def _stop_all(state: State, why: Cause, by: str, corners: set[str] | None) -> list[Event]:
    """Stops for sessions and attempts not yet stopping; of these corners, or of all (the house's only on a server stop)."""
    events: list[Event] = [
        SessionStopAsked(session.session, session.corner, why)
        for session in state.sessions.values()
        if not session.stopping and (corners is None or session.corner in corners)
    ]
    events += [
        StopAsked(attempt.attempt, attempt.job, attempt.corner, why, by)
        for attempt in state.attempts.values()
        if attempt.stopping == "none"
        and (attempt.corner != HOUSE or why == "server_stop")
        and (corners is None or attempt.corner in corners)
    ]
    return events
