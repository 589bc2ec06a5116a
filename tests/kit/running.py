"""Runs the kit's commands and the exam as entrants and organisers do, and speaks to a model server over its socket."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
EXAM = ROOT / "competitions" / "pocket-arena" / "exam.py"
# Generous, because several of these programs may share two cores with others.
PATIENCE = 240


class Arena(NamedTuple):
    """What an entrant finds: a base model, a flawed pool, a public dev set, and the pool cleaned."""

    base: Path
    pool: Path
    dev: Path
    clean: Path


def kit(module: str, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run `python -m palestra_kit.MODULE` and expect an exit code."""
    argv = [sys.executable, "-m", f"palestra_kit.{module}", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == code, f"{argv} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def exam(*arguments: object, answers: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the pocket arena's exam.py and expect an exit code."""
    argv = [sys.executable, str(EXAM), *map(str, arguments)]
    done = subprocess.run(
        argv, input=answers, capture_output=True, text=True, timeout=PATIENCE, check=False, encoding="utf-8"
    )
    assert done.returncode == code, f"{argv} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class Server:
    """A running model server, spoken to over its socket."""

    def __init__(self, path: Path, process: subprocess.Popen[str]) -> None:
        self.path, self.process = path, process

    def ask(self, method: str, target: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Status and JSON of one request; ConnectionError while nothing listens."""
        connection = http.client.HTTPConnection("kit", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(PATIENCE)
            connection.sock.connect(str(self.path))
            raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
            connection.request(method, target, raw)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def chat(self, prompt: str, **fields: object) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": prompt}], **fields}
        status, answer = self.ask("POST", "/v1/chat/completions", body)
        assert status == 200, answer
        return answer

    def wait(self, condition: Callable[[Server], bool]) -> None:
        """Until it holds; fails when the process ends or patience does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}"
            try:
                if condition(self):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("the server did not get there in time")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Served(NamedTuple):
    """A server that is ready, and what /health said before it was."""

    server: Server
    before: list[int]


def start_server(folder: Path, *arguments: object) -> Server:
    """A model server with its socket and its log in `folder`; not ready yet."""
    path = folder / f"s{len(list(folder.glob('*.log')))}"
    argv = [sys.executable, "-m", "palestra_kit.serve", *map(str, arguments), "--socket", str(path)]
    with path.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, text=True)
    return Server(path, process)
