"""The referee: a request or an observation in, events (or a refusal) out, and what follows by rule from the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palestra.events.base import Event, clip
from palestra.events.runs import AlarmCleared, AlarmRaised, RefusalsCounted, ReportFrozen, TailRepaired
from palestra.referee import entrants, exams, jobs, nominate, opening, schedule, sessions, spend, stages
from palestra.referee import observations as seen
from palestra.referee import requests as asked
from palestra.referee.observations import Observation
from palestra.referee.requests import Request
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.state.arena import State
from palestra.state.clock import stage_end

_REQUESTS: dict[type[Request], Callable[[State, Any, Moment], list[Event] | Refusal]] = {
    asked.OpenRun: opening.open_run,
    asked.Pause: stages.pause,
    asked.Resume: stages.resume,
    asked.EndRun: stages.end,
    asked.AddEntrant: entrants.add,
    asked.RemoveEntrant: entrants.remove,
    asked.RotateToken: entrants.rotate,
    asked.RestartEntrant: entrants.restart,
    asked.ReserveCall: spend.reserve,
    asked.SubmitJob: jobs.submit,
    asked.CancelJob: jobs.cancel,
    asked.SealCheckpoint: nominate.seal,
    asked.Nominate: nominate.nominate,
    asked.Finish: sessions.finish,
}


def rule(state: State, request: Request, at: Moment) -> list[Event] | Refusal:
    """Judge a request by the state. The state is only read."""
    return _REQUESTS[type(request)](state, request, at)


def observe(state: State, observation: Observation, at: Moment) -> list[Event]:
    """Take a fact in: total and idempotent; what isn't open (any more) becomes ObservationIgnored."""
    match observation:
        case seen.Tick():
            return []
        case seen.ServerUp():
            return stages.server_up(state, observation, at)
        case seen.ServerDown():
            return stages.server_down(state, observation, at)
        case seen.TailSetAside(size=size, kept_as=kept_as):
            return [TailRepaired(size, kept_as)]
        case seen.CallAnswered():
            return spend.answered(state, observation)
        case seen.CallUnused():
            return spend.unused(state, observation)
        case seen.AttemptExited():
            return jobs.exited(state, observation)
        case seen.AttemptLost():
            return jobs.lost(state, observation)
        case seen.SessionExited():
            return sessions.exited(state, observation)
        case seen.SessionLost():
            return sessions.lost(state, observation)
        case seen.CopyDone():
            return nominate.copied(state, observation)
        case seen.CopyBroke():
            return nominate.broke(state, observation)
        case seen.Probed():
            return nominate.probed(state, observation)
        case seen.QuestionsMade():
            return exams.started(state, observation)
        case seen.ExamGraded():
            return exams.graded(state, observation)
        case seen.ExamBroke():
            return exams.broke(state, observation)
        case _:
            return _notes(state, observation)


def _notes(state: State, observation: Observation) -> list[Event]:
    """Counts, alarms and documents: facts that change nothing but the record."""
    match observation:
        case seen.RefusalsRepeated() as repeat:
            return [RefusalsCounted(repeat.corner, repeat.code, repeat.about, repeat.count)]
        case seen.Trouble(alarm=alarm, text=text):
            return [] if state.alarms.get(alarm) == text else [AlarmRaised(alarm, clip(text))]
        case seen.TroubleOver(alarm=alarm):
            return [AlarmCleared(alarm)] if alarm in state.alarms else []
        case seen.DocumentFrozen(name=name, digest=digest, upto=upto):
            return [] if state.reports.get(name) == digest else [ReportFrozen(name, digest, upto)]
    raise TypeError(f"no rule for the observation {type(observation).__name__}")


def follow(state: State, at: Moment) -> list[Event]:
    """What follows by rule from the state as it is, without anyone asking. Called until nothing does.

    Each step returns as soon as it has something, so that the next one sees it folded.
    """
    if state.opened is None or not state.clock.server:
        return []
    end = stage_end(state)
    late = end is not None and at >= end
    return (
        stages.enter(state, at)
        or (nominate.out_of_time(state) if late and state.clock.stage == "closing" else [])
        or (exams.out_of_time(state) if late and state.clock.stage == "judging" else [])
        or stages.stop_leftovers(state)
        or entrants.void(state)
        or entrants.due(state, at)
        or sessions.due(state, at)
        or nominate.follow(state)
        or exams.follow(state)
        or schedule.plan(state, at)
    )


def next_due(state: State) -> Moment | None:
    """The next instant at which time alone changes something: a stage's end, an entrant's start, an agent's restart."""
    if state.opened is None:
        return None
    end = stage_end(state)
    moments = [end] if end is not None and stages.ends_by_time(state) else []
    if state.clock.stage == "running":
        moments += [one.starts for one in state.announced.values()]
    if state.clock.stage == "running" and not state.clock.paused:
        busy = {session.corner for session in state.sessions.values()}
        moments += [
            corner.restart_at
            for corner in state.corners.values()
            if corner.corner not in busy and sessions.restarts(corner)
        ]
    return min(moments, default=None)
