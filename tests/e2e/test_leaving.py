"""A server leaves when it is told to, whatever it waits for, and a run that has no model worth an exam ends without one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.arena import BARE, Arena, lay_out_bare, palestra, processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

AT_ONCE = 25
"""Seconds: less than any wait that a server is not to sit out, on a busy machine."""


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    with Arena(lay_out_bare(BARE, tmp_path / "bare"), tmp_path / "runs") as made:
        yield made


def held(arena: Arena, who: str) -> Path:
    """As long as this file is there, the agent or the exam program waits."""
    path = arena.competition / "held" / who
    path.touch()
    return path


def test_a_run_without_a_model_that_serves_ends_unscored(arena: Arena) -> None:
    """F36: nothing was examined, so nothing has a score; the run ends all the same and its files are sound."""
    server = arena.serve("--until-end")
    assert server.leave(300) == 0, server.said()
    arena.journal.read()
    assert arena.journal.state.clock.stage == "results"
    assert {sitting.target: sitting.failed for sitting in arena.journal.state.exams.values()} == {
        "base": "not_served"
    }
    assert palestra("verify", arena.folder.path).returncode == 0


def test_an_exam_program_that_hangs_keeps_no_server_from_leaving(arena: Arena) -> None:
    """It is killed with the server's stop, and the next server asks it again."""
    exam = held(arena, "exam")
    server = arena.serve("--until-end")
    begun = arena.competition / "held" / "begun"
    arena.until(server, begun.exists, what="the exam program")
    server.ask_to_stop()
    assert server.leave(AT_ONCE) == 0
    assert "Traceback" not in server.said()
    program = str(arena.folder.competition / "exam.py").encode()
    assert not [pid for pid, _, argv in processes() if program in argv]
    exam.unlink()
    server = arena.serve("--until-end")
    assert server.leave(300) == 0, server.said()
    arena.journal.read()
    assert arena.journal.state.clock.stage == "results"


def test_those_who_wait_are_sent_home_when_it_leaves(arena: Arena) -> None:
    """A long poll is answered with 503 at once, and nothing but words is printed; its client asks the next server again."""
    held(arena, "agent")
    server = arena.serve()
    arena.until_row(server, "SessionStarted")
    door = arena.door("A")
    asked = {"argv": ["sleep", "50"], "time": "1m"}
    job = door.ask("POST", "/arena/jobs", asked, key="the-only-job")["job"]
    with ThreadPoolExecutor(1) as waiting:
        poll = waiting.submit(door.send, "GET", f"/arena/jobs/{job}?wait=50", b"", {}, 60)
        server.ask_to_stop()
        answer = poll.result(AT_ONCE)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "broken")
    assert server.leave(AT_ONCE) == 0
    assert "Traceback" not in server.said()
    assert "Cancel" not in server.said()
