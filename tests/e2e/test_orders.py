"""An organiser pauses, resumes, stops, leaves running and ends a run whose agents and jobs are real."""

from pathlib import Path
from typing import TypeVar

import pytest
from tests.e2e.arena import QUICK, Arena, Served, lay_out, palestra

from palestra.cluster.spool import Spool
from palestra.events.base import Event
from palestra.events.corners import SessionEnded, SessionStarted
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded
from palestra.events.runs import Paused, Resumed, ServerStopped
from palestra.state.queue import HOUSE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

STOP_WITHIN = 30 + 30
"""Seconds that a stop takes at most, and half as much again for a busy machine: it must not be near the tests' own patience."""
BY_US = "organiser:"

E = TypeVar("E", bound=Event)


def test_pause_resume_stop_and_end(made: Path, tmp_path: Path) -> None:
    """Design 5 and 6.3; S10, S12, S61, S71: each order does what it says, and what it costs is on the record."""
    competition = lay_out(QUICK, made, tmp_path / "quick")
    hold(competition)
    with Arena(competition, tmp_path / "runs") as arena:
        server = arena.serve()
        arena.until(server, lambda: len(running(arena)) == 2, what="two jobs that run")
        a_pause_holds_back_calls_and_starts_only(arena, server)
        a_second_server_is_refused(arena, server)
        arena.until(server, lambda: running(arena), what="a job that runs")
        stopped = a_stop_takes_agents_and_jobs_along(arena, server)
        server = arena.serve()
        arena.until(server, lambda: set(again(arena)) == stopped, what="the stopped jobs' second attempts")
        another_server_goes_on(arena, server, stopped)
        a_server_alone_can_leave(arena, server)
        server = arena.serve("--until-end")
        arena.until(server, lambda: completed(arena) >= stopped, what="the end of what ended meanwhile")
        arena.until_row(server, "NominationRequested")
        an_end_is_by_rule(arena, server)


def hold(competition: Path) -> Path:
    """As long as this file is there, jobs wait before they train."""
    path = competition / "made" / "tiny-pool" / "hold"
    path.touch()
    return path


def events(arena: Arena, kind: type[E]) -> list[E]:
    return [entry.event for entry in arena.journal.entries if isinstance(entry.event, kind)]


def started(arena: Arena) -> list[str]:
    """Attempts of the entrants' jobs."""
    return [one.attempt for one in events(arena, AttemptStarted) if one.corner != HOUSE]


def running(arena: Arena) -> set[str]:
    """Jobs of entrants of which an attempt runs, its process being there."""
    return {
        one.job
        for one in arena.journal.state.attempts.values()
        if one.corner != HOUSE and (arena.folder.spool / "attempts" / one.attempt / "child").exists()
    }


def completed(arena: Arena) -> set[str]:
    """Jobs that came to a good end."""
    return {one.job for one in events(arena, JobEnded) if one.end == "completed"}


def again(arena: Arena) -> list[str]:
    """Jobs that were started a second time."""
    return [attempt.removesuffix(".2") for attempt in started(arena) if attempt.endswith(".2")]


def a_pause_holds_back_calls_and_starts_only(arena: Arena, server: Served) -> None:
    """Running jobs go on and pay; the job that waits isn't started although there is room, and no call is made."""
    assert palestra("pause", arena.folder.path, "--reason", "a look at the cables").returncode == 0
    once_more = palestra("pause", arena.folder.path)
    assert once_more.returncode == 1
    assert once_more.stderr.startswith("palestra: paused already, by organiser:")
    hold(arena.competition).unlink()
    arena.until_row(server, "AttemptEnded", 2)
    hold(arena.competition)
    told = palestra("status", arena.folder.path)
    assert "paused by organiser:" in told.stdout
    assert palestra("resume", arena.folder.path).returncode == 0
    arena.until_row(server, "Resumed")
    begin = next(row.seq for row in arena.journal.rows if row.kind == "Paused")
    end = next(row.seq for row in arena.journal.rows if row.kind == "Resumed")
    meanwhile = [entry.event for entry in arena.journal.entries if begin < entry.seq < end]
    assert not [
        one for one in meanwhile if type(one).__name__ in ("CallReserved", "AttemptStarted", "SessionStarted")
    ]
    assert [one for one in meanwhile if isinstance(one, AttemptEnded) and one.charge > 0]
    paused, resumed = events(arena, Paused)[0], events(arena, Resumed)[0]
    assert paused.reason == "a look at the cables"
    assert paused.by.startswith(BY_US)
    assert resumed.by.startswith(BY_US)


def a_second_server_is_refused(arena: Arena, server: Served) -> None:
    """F03: one sentence that names the first, and nothing is written."""
    second = palestra("run", "--runs", arena.runs, "--run", arena.name)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"is being served by process {server.process.pid};" in second.stderr
    assert not server.ended


def a_stop_takes_agents_and_jobs_along(arena: Arena, server: Served) -> set[str]:
    """TERM: paused on the record, everything of the run gone, jobs back in the queue and nothing charged for what was cut."""
    server.ask_to_stop()
    assert server.leave(STOP_WITHIN) == 0
    assert "Traceback" not in server.said()
    arena.journal.read()
    assert arena.living() == set()
    state = arena.journal.state
    assert (state.clock.paused, state.clock.paused_by, state.clock.server) == (True, "server", 0)
    assert isinstance(arena.journal.entries[-1].event, ServerStopped)
    assert not (state.sessions or state.attempts or state.calls)
    cut = [one for one in events(arena, AttemptEnded) if one.cause == "server_stop"]
    assert cut
    assert {(one.end, one.charge) for one in cut} == {("preempted", 0)}
    assert {one.job for one in cut} <= set(state.jobs)
    sessions = events(arena, SessionEnded)
    assert {one.cause for one in sessions} <= {"stopped", "exited"}
    assert not any(one.quick for one in sessions)
    return {one.job for one in cut if one.corner != HOUSE}


def another_server_goes_on(arena: Arena, server: Served, stopped: set[str]) -> None:
    """The server's own pause is over; agents go on in a new session, stopped jobs in a second attempt."""
    resumed = events(arena, Resumed)[-1]
    assert resumed.by == "server"
    wanted = {job.partition("-")[0] + "-s2" for job in stopped}
    arena.until(
        server, lambda: wanted <= {one.session for one in events(arena, SessionStarted)}, what=f"{wanted}"
    )
    assert all(corner.quick_failures == 0 for corner in arena.journal.state.corners.values())


def a_server_alone_can_leave(arena: Arena, server: Served) -> None:
    """`stop --leave-running`: nothing but the server goes; a job that ends meanwhile is settled by the next one."""
    arena.until(server, lambda: running(arena), what="a job that runs")
    job = min(running(arena))
    attempt = arena.journal.state.jobs[job].attempt
    before = arena.living()
    left = palestra("stop", arena.folder.path, "--leave-running")
    assert (left.returncode, left.stderr) == (0, "")
    assert left.stdout.startswith("stopped; agents and jobs go on.")
    assert server.leave(STOP_WITHIN) == 0
    arena.journal.read()
    assert not arena.journal.state.clock.paused
    assert before & arena.living()
    hold(arena.competition).unlink()
    arena.until(None, Spool(arena.folder.spool / "attempts" / attempt).status, what=f"the end of {attempt}")
    assert attempt in arena.journal.state.attempts
    told = palestra("status", arena.folder.path)
    assert "no server is up" in told.stdout


def an_end_is_by_rule(arena: Arena, server: Served) -> None:
    """`end`: agents and jobs are stopped, the nomination is copied and checked, exams follow, and the files bear it out."""
    assert palestra("end", arena.folder.path, "--reason", "enough").returncode == 0
    assert server.leave(1800) == 0, server.said()
    assert "Traceback" not in server.said()
    arena.journal.read()
    state = arena.journal.state
    assert state.clock.stage == "results"
    assert arena.living() == set()
    targets = {sitting.target for sitting in state.exams.values() if sitting.correct is not None}
    assert targets == {"base", *(corner.current for corner in state.corners.values() if corner.current)}
    assert len(targets) > 1
    ended = [one for one in events(arena, AttemptEnded) if one.corner != HOUSE]
    assert len(ended) == len({one.attempt for one in ended}) == len(started(arena))
    refused = palestra("end", arena.folder.path)
    assert refused.returncode == 1
    assert "no server answers" in refused.stderr
    checked = palestra("verify", arena.folder.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
