"""When an agent's process is started again, and when it isn't: restarted by rule until it finishes or time is over."""

from __future__ import annotations

from palestra.events.base import Event
from palestra.events.corners import EntrantFinished, SessionEnded, SessionStarted
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.referee.observations import SessionExited, SessionLost
from palestra.referee.repeat import fingerprint
from palestra.referee.requests import Finish
from palestra.referee.seats import over, seated
from palestra.rules.errors import Refusal
from palestra.rules.units import SECOND, Moment
from palestra.state.arena import Corner, State, next_id

QUICK = 10 * SECOND
"""An agent that ends on its own sooner than this has most likely failed to start."""
ALARM_AFTER = 5
"""Quick failures in a row until an organiser is told; restarts go on, ever more slowly."""


def due(state: State, at: Moment) -> list[Event]:
    """Start a session in every corner that should have one and has none."""
    if state.clock.stage != "running" or state.clock.paused or over(state, at):
        return []
    busy = {session.corner for session in state.sessions.values()}
    return [
        SessionStarted(next_id(state, corner.corner, "s"), corner.corner, corner.harness)
        for corner in state.corners.values()
        if corner.corner not in busy and restarts(corner) and at >= corner.restart_at
    ]


def restarts(corner: Corner) -> bool:
    """A corner that finished, or that can't pay for a call any more, isn't started again."""
    return corner.finished is None and not corner.broke


def exited(state: State, seen: SessionExited) -> list[Event]:
    """An agent's process ended; if again too quickly, an organiser is told once."""
    session = state.sessions.get(seen.session)
    if session is None:
        return [ObservationIgnored(seen.session, "SessionExited")]
    corner = state.corners[session.corner]
    quick = not session.stopping and corner.finished is None and seen.lived < QUICK
    cause = "stopped" if session.stopping else "exited"
    events: list[Event] = [SessionEnded(session.session, session.corner, seen.exit_code, cause, quick)]
    alarm = f"agent_failing:{session.corner}"
    if quick and corner.quick_failures + 1 >= ALARM_AFTER and alarm not in state.alarms:
        text = f"the agent of corner {corner.corner} ended {ALARM_AFTER} times in a row within {QUICK // SECOND} s, last with exit code {seen.exit_code}"
        events.append(AlarmRaised(alarm, text))
    return events


def lost(state: State, seen: SessionLost) -> list[Event]:
    """Gone without a trace: started again, and not held against the agent."""
    session = state.sessions.get(seen.session)
    if session is None:
        return [ObservationIgnored(seen.session, "SessionLost")]
    return [SessionEnded(session.session, session.corner, None, "lost", quick=False)]


def finish(state: State, request: Finish, at: Moment) -> list[Event] | Refusal:
    """Done for good; nominations already requested are still copied and checked."""
    seat = seated(state, request.actor, at)
    if isinstance(seat, Refusal):
        return seat
    return [EntrantFinished(request.actor, request.note[:500], fingerprint(request))]
