"""How doors open and close, what a fault inside looks like from outside, and where real keys come from."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from palestra.rules.competition import Upstream
from palestra.rules.errors import BadInput, Broken, Refusal
from palestra.runtime.keys import read_key
from palestra.web.answers import Fault, guarded, reply, serve_routes
from palestra.web.doors import LONGEST_PATH, Doors


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one, for sockets."""
    with tempfile.TemporaryDirectory(prefix="door-") as made:
        yield Path(made)


async def say_ok(request: Request) -> Response:
    return reply({"ok": True})


def get(path: Path, what: str = "/ok") -> tuple[int, bytes]:
    """One request, whole."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30)
        link.connect(str(path))
        link.sendall(f"GET {what} HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n".encode())
        response = http.client.HTTPResponse(link)
        response.begin()
        return response.status, response.read()


def opened(path: Path, then: Callable[[], None], *routes: Route) -> None:
    """Open a door, do something from another thread, close it."""

    async def go() -> None:
        doors = Doors()
        await doors.open(path, serve_routes([Route("/ok", guarded(say_ok)), *routes]))
        try:
            await asyncio.to_thread(then)
        finally:
            await doors.close()

    asyncio.run(go())


def test_a_door_is_its_owners_alone_and_leaves_nothing_behind(folder: Path) -> None:
    path = folder / "a.sock"

    def look() -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert get(path) == (200, b'{"ok":true}\n')

    opened(path, look)
    assert not path.exists()


def test_a_socket_that_a_dead_server_left_is_replaced(folder: Path) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    opened(path, lambda: None if get(path)[0] == 200 else pytest.fail("no answer"))
    path.write_text("something else that lies in the way")
    opened(path, lambda: None if get(path)[0] == 200 else pytest.fail("no answer"))


def test_a_path_too_long_for_a_socket_is_said(folder: Path) -> None:
    path = folder / ("x" * LONGEST_PATH)
    with pytest.raises(
        Broken, match="a unix socket's path has at most 100 bytes; set TMPDIR to a shorter folder"
    ):
        opened(path, lambda: None)


def test_a_door_that_cannot_open_says_why() -> None:
    with pytest.raises(
        Broken, match=r"/nowhere/a\.sock: no socket can be made there: No such file or directory"
    ):
        opened(Path("/nowhere/a.sock"), lambda: None)


@pytest.mark.parametrize(
    ("error", "status", "code", "message"),
    [
        (Refusal("no_such_job", "you have no job 'x'", subject="x"), 404, "no_such_job", "you have no job 'x'"),
        (Refusal("finished", "it is final", facts={"n": 1}), 409, "finished", "it is final"),
        (BadInput("time", "2:00", "write the unit"), 422, "bad_input", "time: '2:00' can't be read; write the unit"),
        (Broken("the journal can't be written"), 503, "broken", "the journal can't be written"),
        (ZeroDivisionError("division by zero"), 500, "failed", "the arena failed on this request; its organiser can see why"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)  # fmt: skip
def test_each_kind_of_error_has_its_status(
    folder: Path, caplog: pytest.LogCaptureFixture, error: Exception, status: int, code: str, message: str
) -> None:
    """No traceback ever leaves; the organiser's log has it."""

    async def breaks(request: Request) -> Response:
        raise error

    def look() -> None:
        got, body = get(folder / "a.sock", "/breaks")
        fault = msgspec.json.decode(body, type=dict[str, Fault])["error"]
        assert (got, fault.code, fault.message) == (status, code, message)
        assert get(folder / "a.sock")[0] == 200

    opened(folder / "a.sock", look, Route("/breaks", guarded(breaks)))
    assert ("GET /breaks failed" in caplog.text) == (code == "failed")


def test_a_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rule = Upstream("model", url="https://models.example/v1", key_env="MODEL_KEY")
    monkeypatch.setenv("MODEL_KEY", "sk-1")
    assert read_key(rule, tmp_path) == "sk-1"
    for value in ("", None):
        monkeypatch.setenv("MODEL_KEY", "") if value is not None else monkeypatch.delenv("MODEL_KEY")
        with pytest.raises(Broken) as told:
            read_key(rule, tmp_path)
        assert (
            str(told.value)
            == "upstreams.model.key_env: the environment has no MODEL_KEY; set it where `palestra run` is called"
        )


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    rule = Upstream("model", url="https://models.example/v1", key_file="key")
    with pytest.raises(Broken) as told:
        read_key(rule, tmp_path)
    assert str(told.value) == f"upstreams.model.key_file: {tmp_path}/key isn't there"
    file = tmp_path / "key"
    file.write_text("sk-1\n")
    for mode in (0o644, 0o640, 0o604):
        file.chmod(mode)
        with pytest.raises(Broken) as told:
            read_key(rule, tmp_path)
        assert str(told.value) == f"upstreams.model.key_file: others can read {file}; run: chmod 600 {file}"
    file.chmod(0o600)
    assert read_key(rule, tmp_path) == "sk-1"
    file.write_text("")
    with pytest.raises(Broken, match=f"upstreams.model.key_file: {file} is empty"):
        read_key(rule, tmp_path)


def test_a_model_without_a_key_needs_none(tmp_path: Path) -> None:
    assert read_key(Upstream("local", url="http://127.0.0.1:1/v1"), tmp_path) == ""
    assert "MODEL_KEY" not in os.environ
