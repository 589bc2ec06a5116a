"""The organiser's door: who did what and why goes on the record, and each no is one sentence."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.building import spec
from tests.web.arena import Arena, serving

from palestra.events.runs import EndAsked, Paused, Resumed
from palestra.referee.requests import SubmitJob
from palestra.runtime.folder import RunFolder
from palestra.runtime.server import Server
from palestra.web.doors import Doors
from palestra.web.organiser import organiser_app


class Office:
    """An arena with its organiser's door open."""

    def __init__(self, arena: Arena, path: Path) -> None:
        self.arena = arena
        self.path = path
        self.server: Server

    async def open(self) -> None:
        self.server = Server(RunFolder(self.path.parent / "run"))
        self.server.desk = self.arena.desk
        self.doors = Doors()
        await self.doors.open(self.path, organiser_app(self.server))

    def ask(self, method: str, verb: str, body: object = None, **headers: str) -> tuple[int, Any]:
        link = http.client.HTTPConnection("run")
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.settimeout(30)
        link.sock.connect(str(self.path))
        try:
            link.request(method, verb, None if body is None else json.dumps(body), headers)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            link.close()


@pytest.fixture
def office() -> Iterator[Office]:
    with serving() as arena, tempfile.TemporaryDirectory(prefix="org-") as folder:
        made = Office(arena, Path(folder) / "control.sock")
        arena.on_loop(made.open())
        yield made
        arena.on_loop(made.doors.close())


def test_pause_and_resume_say_who_and_why(office: Office) -> None:
    status, told = office.ask("POST", "/pause", {"by": "mara", "reason": "a broken cable"})
    assert (status, told) == (200, {"done": "Paused"})
    assert office.ask("POST", "/resume", {"by": "mara"}) == (200, {"done": "Resumed"})
    events = office.arena.events
    paused = next(event for event in events if isinstance(event, Paused))
    assert (paused.by, paused.reason) == ("organiser:mara", "a broken cable")
    assert any(isinstance(event, Resumed) and event.by == "organiser:mara" for event in events)


def test_what_makes_no_sense_is_refused_in_a_sentence(office: Office) -> None:
    status, told = office.ask("POST", "/resume", {})
    assert (status, told["error"]["message"]) == (409, "the competition isn't paused")
    office.ask("POST", "/pause", {"by": "mara"})
    status, told = office.ask("POST", "/pause", {"by": "leo"})
    assert (status, told["error"]["message"]) == (409, "paused already, by organiser:mara")
    office.ask("POST", "/end", {})
    status, told = office.ask("POST", "/end", {})
    assert status == 409 and told["error"]["message"].startswith("the running stage is over already")


@pytest.mark.parametrize(
    ("body", "field"),
    [({"reson": "x"}, "reson"), ({"by": 3}, "by"), ({"leave_running": "yes"}, "leave_running"), ([], "body")],
)
def test_bad_orders_name_the_field(office: Office, body: object, field: str) -> None:
    status, told = office.ask("POST", "/pause", body)
    assert (status, told["error"]["field"]) == (422, field)
    assert not office.arena.state.clock.paused


def test_the_same_key_is_the_same_order(office: Office) -> None:
    for _ in range(2):
        assert office.ask("POST", "/end", {"reason": "fire"}, **{"Palestra-Request": "end-the-run"})[0] == 200
    assert [event.reason for event in office.arena.events if isinstance(event, EndAsked)] == ["fire"]


def test_status_tells_the_board_alarms_and_why_each_job_waits(office: Office) -> None:
    for corner, gpus in (("A", 8), ("B", 1)):
        office.arena.rule(SubmitJob(corner, None, spec(gpus=gpus)))
    _, told = office.ask("GET", "/status")
    assert told["served"] and not told["paused"] and told["alarms"] == {}
    assert [line["corner"] for line in told["scoreboard"]["lines"]] == ["A", "B"]
    waits = {
        job["id"]: (job["corner"], job["state"], job["wait"] and job["wait"]["resource"])
        for job in told["jobs"]
    }
    assert waits == {"A-j1": ("A", "running", None), "B-j1": ("B", "queued", "gpus")}


@pytest.mark.parametrize(("leave", "how"), [(False, "stop"), (True, "leave-running")])
def test_stop_is_asked_once_and_names_the_process(office: Office, leave: bool, how: str) -> None:
    import os

    for _ in range(2):
        status, told = office.ask("POST", "/stop", {"leave_running": leave})
        assert (status, told) == (200, {"done": "stopping", "pid": os.getpid()})
    assert office.server.stop_asked.result() == how


def test_unknown_paths_are_told(office: Office) -> None:
    assert office.ask("GET", "/pause")[1]["error"]["code"] == "unknown_method"
    assert office.ask("GET", "/nothing")[1]["error"]["code"] == "unknown_path"
