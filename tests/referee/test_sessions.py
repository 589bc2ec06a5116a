"""Agents' processes: started by rule, started again when they end, not held against the agent when the arena is to blame."""

from __future__ import annotations

import pytest
from tests.building import START, Rehearsal, competition, events_of
from tests.world import end_of_running

from palestra.events.corners import SessionEnded, SessionStarted
from palestra.events.runs import AlarmRaised, ObservationIgnored
from palestra.referee.observations import ServerDown, SessionExited, SessionLost, Tick
from palestra.referee.requests import Finish, Pause, Resume
from palestra.referee.rulings import next_due
from palestra.rules.units import HOUR, MINUTE, SECOND, Moment


@pytest.fixture
def run() -> Rehearsal:
    return Rehearsal()


def started(run: Rehearsal, corner: str = "A") -> list[str]:
    """A corner's sessions so far."""
    return [
        event.session
        for event in events_of(run.rows)
        if isinstance(event, SessionStarted) and event.corner == corner
    ]


def test_every_corner_gets_a_session_when_running_begins() -> None:
    run = Rehearsal(at=START - HOUR)
    assert not started(run)
    run.until(START)
    assert (started(run, "A"), started(run, "B")) == (["A-s1"], ["B-s1"])


def test_an_agent_that_left_is_started_again_a_second_later(run: Rehearsal) -> None:
    run.tell(SessionExited("A-s1", 0, HOUR))
    assert next_due(run.state) == run.at + SECOND
    run.wait(SECOND)
    assert started(run) == ["A-s1", "A-s2"]


def test_a_restart_stays_due_though_calls_were_settled_after_it_was_due(run: Rehearsal) -> None:
    """Calls don't make the rules be followed; what is due must then still be seen as due, or nobody wakes for it."""
    call = run.reserve("B")
    run.tell(SessionExited("A-s1", 0, HOUR))
    due = run.at + SECOND
    run.at = Moment(due + MINUTE)
    run.answer(call, None)
    assert started(run) == ["A-s1"]
    assert next_due(run.state) == due
    run.tell(Tick())
    assert started(run) == ["A-s1", "A-s2"]


def test_quick_failures_are_retried_ever_more_slowly_and_told_once(run: Rehearsal) -> None:
    waits = []
    for number in range(1, 9):
        run.tell(SessionExited(f"A-s{number}", 1, SECOND))
        due = next_due(run.state)
        assert due is not None
        waits.append((due - run.at) // SECOND)
        run.until(due)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    alarms = [event for event in events_of(run.rows) if isinstance(event, AlarmRaised)]
    assert [alarm.alarm for alarm in alarms] == ["agent_failing:A"]
    assert "5 times in a row within 10 s, last with exit code 1" in alarms[0].text


def test_one_session_that_lasted_ends_a_row_of_quick_failures(run: Rehearsal) -> None:
    for number in range(1, 4):
        run.tell(SessionExited(f"A-s{number}", 1, SECOND))
        run.until(next_due(run.state) or 0)
    run.tell(SessionExited("A-s4", 1, HOUR))
    assert run.state.corners["A"].quick_failures == 0


def test_stopped_or_lost_isn_t_a_failure(run: Rehearsal) -> None:
    run.tell(SessionLost("A-s1"))
    ended = run.last(SessionEnded)
    assert (ended.cause, ended.quick) == ("lost", False)
    run.tell(ServerDown(1, "stop"))
    run.tell(SessionExited("B-s1", 143, SECOND))
    ended = run.last(SessionEnded)
    assert (ended.cause, ended.quick) == ("stopped", False)


def test_an_agent_running_when_the_server_dies_is_kept_not_started_again(run: Rehearsal) -> None:
    run.restart()
    assert started(run) == ["A-s1"]
    assert list(run.state.sessions) == ["A-s1", "B-s1"]


def test_a_finished_agent_is_stopped_and_not_started_again(run: Rehearsal) -> None:
    run.grant(Finish("A", None, "done"))
    assert run.state.sessions["A-s1"].stopping == "stage_end"
    run.tell(SessionExited("A-s1", 0, MINUTE))
    run.wait(HOUR)
    assert started(run) == ["A-s1"]
    refusal = run.refuse(Finish("A", None))
    assert refusal.code == "finished"


def test_nobody_is_started_while_paused_or_after_the_end() -> None:
    run = Rehearsal(competition(running=HOUR, pause="absorb"))
    run.grant(Pause("organiser:one", None, "a node is down"))
    run.tell(SessionExited("A-s1", 0, HOUR))
    run.wait(MINUTE)
    assert started(run) == ["A-s1"]
    run.grant(Resume("organiser:one", None))
    assert started(run) == ["A-s1", "A-s2"]
    run.tell(SessionExited("A-s2", 0, HOUR))
    run.until(end_of_running(run))
    assert started(run) == ["A-s1", "A-s2"]


def test_a_session_ends_once(run: Rehearsal) -> None:
    run.tell(SessionExited("A-s1", 0, HOUR))
    assert run.tell(SessionExited("A-s1", 0, HOUR)) == [ObservationIgnored("A-s1", "SessionExited")]
    assert run.tell(SessionLost("A-s1")) == [ObservationIgnored("A-s1", "SessionLost")]
