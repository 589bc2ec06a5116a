"""The way to the arena: retries with the same key while the server restarts, and one sentence when it stays away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from palestra.client.arena import main

if TYPE_CHECKING:
    from tests.client.conftest import Arena

Capture = pytest.CaptureFixture[str]
SUBMIT = ["submit", "--time", "5m", "--", "true"]


def test_a_lost_answer_is_asked_for_again_with_the_same_key(arena: Arena, capsys: Capture) -> None:
    """F09: the server had carried it out before it died."""
    arena.overrides = [None, None]
    assert main(SUBMIT) == 0
    keys = {ask.key for ask in arena.asked}
    assert len(arena.asked) == 3
    assert len(keys) == 1
    assert 8 <= len(keys.pop()) <= 64
    assert list(arena.jobs) == ["A-j1"]


def test_a_restarting_server_is_waited_for(arena: Arena) -> None:
    arena.stop()
    argv = [sys.executable, "-m", "palestra.client", *SUBMIT]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr
        assert waiting.stdout
        assert (
            "waiting for the server (no socket there)" in waiting.stderr.readline()
        )  # after its first tries
        arena.start()
        assert waiting.stdout.readline() == "job A-j1\n"
    assert waiting.returncode == 0
    assert list(arena.jobs) == ["A-j1"]


def test_a_stopping_server_is_waited_for(arena: Arena, capsys: Capture) -> None:
    arena.overrides = [
        arena.no(503, "stopping", "the server is stopping")._replace(headers={"Retry-After": "0.1"})
    ]
    assert main(["status"]) == 0
    assert len(arena.asked) == 2


def test_giving_up_says_where_why_and_how_to_repeat(
    arena: Arena, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_PATIENCE_S", "0.3")
    arena.stop()
    assert main([*SUBMIT[:1], "--request", "my-own-key", *SUBMIT[1:]]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert str(arena.socket) in said
    assert "no socket there" in said
    assert "--request my-own-key" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("PALESTRA_SOCKET", "", "PALESTRA_SOCKET isn't set"),
        ("PALESTRA_TOKEN", "", "PALESTRA_TOKEN isn't set"),
        ("PALESTRA_SOCKET", "/tmp/" + "x" * 200, "too long"),
    ],
)
def test_what_no_wait_can_mend_is_told_at_once(
    arena: Arena, capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str, value: str, hint: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("PALESTRA_PATIENCE_S", "3600")
    assert main(["status"]) == 3
    assert hint in " ".join(capsys.readouterr().err.split())


def test_a_wrong_token_is_refused(arena: Arena, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_TOKEN", "token-of-B")
    assert main(["status"]) == 1
    assert "refused (unknown_token)" in capsys.readouterr().err
    assert arena.asked == []


def test_a_failing_server_is_no_refusal(arena: Arena, capsys: Capture) -> None:
    arena.overrides = [arena.says(500, b"<html>oops</html>"), arena.says(200, b"[1]")]
    assert main(["status"]) == 3
    assert "the server failed (500" in capsys.readouterr().err
    assert main(["status"]) == 3
    assert "isn't JSON" in capsys.readouterr().err


def test_over_tcp(arena: Arena, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str | None]] = []

    class Http(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"# Rules over TCP\n")

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Http) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("PALESTRA_URL", f"http://127.0.0.1:{server.server_port}/corner/A/")
        assert main(["rules"]) == 0
        server.shutdown()
    assert capsys.readouterr().out == "# Rules over TCP\n"
    assert seen == [("/corner/A/arena/rules", f"Bearer {os.environ['PALESTRA_TOKEN']}")]
