"""A small arena for the client's tests: a real HTTP server on a unix socket that keeps to the entrant's API."""

import json
import re
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from palestra.gateway.playbook import read_playbooks
from palestra.gateway.player import Player

Json = dict[str, Any]
TOKEN = "token-of-A"
STATUS: Json = {
    "run": "r1", "title": "The pocket arena", "corner": "A", "name": "Careful", "at": 1, "t": "T+0:01:23", "stage": "running",
    "stage_ends": 2, "stage_ends_shown": "2026-12-01 17:02:30 UTC (2026-12-01 18:02:30 CET, T+0:02:30)", "left": "1 min 7 s", "paused": False, "isolation": "none", "gpus_are": "slot",
    "api": {"limit": 1, "shown": {"limit": "$0.50", "spent": "$0.12", "held": "$0.01", "left": "$0.37"}},
    "gpu": {"limit": 1, "shown": {"limit": "0.50 GPU-h", "spent": "0.10 GPU-h", "held": "0 GPU-s", "left": "0.40 GPU-h"}},
    "binding": "time: at this pace credit lasts beyond the end", "nomination": None,
    "jobs": {"queued": 1, "running": 0}, "notices": ["the pool has a new file"],
}  # fmt: skip


class Ask(NamedTuple):
    """One request as the server read it."""

    method: str
    path: str
    query: dict[str, str]
    key: str
    body: Json

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


class Says(NamedTuple):
    """One answer; a JSON body unless it is bytes."""

    status: int
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


def no(status: int, code: str, message: str, **more: Any) -> Says:
    return Says(status, {"error": {"code": code, "message": message, **more}})


def job(ident: str, **more: Any) -> Json:
    """A job as the API describes it."""
    plain = {
        "id": ident, "name": "", "state": "queued", "end": None, "cause": None, "evidence": "", "gpus": 1, "memory": 2 << 30,
        "limit": 5_400_000_000, "submitted_t": "T+0:01:00", "started_t": None, "ended_t": None, "attempts": 1, "exit_code": None,
        "gpu_time_charged": 0, "peak_memory": None, "progress": None, "wait": None,
    }  # fmt: skip
    return {**plain, **more}


def said(text: str, *commands: Any, finish: str = "") -> Says:
    """A model's reply: text, and a `shell` call for each command; a command that isn't text gives the arguments as they are."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        for n, command in enumerate(commands)
        for arguments in [json.dumps({"command": command}) if isinstance(command, str) else command[0]]
    ]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    return Says(200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


class Arena:
    """Jobs, nominations and a scripted model, in memory; it can be stopped and started again on the same socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[Ask] = []
        self.answered: dict[str, Says] = {}
        self.status: Json = json.loads(json.dumps(STATUS))
        self.jobs: dict[str, Json] = {}
        self.logs: dict[str, bytes] = {}
        self.nominations: list[Json] = []
        self.overrides: list[Says | None] = []
        """Given out before anything else; None hangs up without an answer, after the request has been carried out."""
        self.polled: Callable[[Json], None] = lambda _: None
        """What happens to a job or nomination while somebody waits for it."""
        self.model: Callable[[Json], Says | None] = lambda _: said("I have nothing left to do.")
        self.lock = threading.Lock()
        self.server: _Server | None = None

    says = Says
    no = staticmethod(no)
    said = staticmethod(said)
    job = staticmethod(job)

    def plays(self, book: str) -> list[Json]:
        """Let the scripted upstream's player be the model; returns the list in which requests will appear."""
        folder = self.socket.parent / "playbooks"
        folder.mkdir(exist_ok=True)
        (folder / "house-mini.toml").write_text(book)
        player, bodies = Player(read_playbooks(folder)), list[Json]()

        def play(body: Json) -> Says | None:
            bodies.append(body)
            played = player.play(json.dumps(body).encode())
            if not played.status:
                return None
            return Says(played.status, b"".join(played.sent()), dict(played.headers))

        self.model = play
        return bodies

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self.server = _Server(str(self.socket), _Http)
        self.server.arena = self
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            self.socket.unlink(missing_ok=True)

    def lines(self, start: str = "") -> list[str]:
        return [ask.line for ask in self.asked if ask.line.startswith(start)]

    def reply(self, ask: Ask) -> Says | None:
        with self.lock:
            self.asked.append(ask)
            override = self.overrides.pop(0) if self.overrides else no(0, "", "")
        if override is not None and override.status:
            return override
        if ask.path == "/v1/chat/completions":
            return self.model(ask.body) if override else None
        with self.lock:
            if not (ask.key and ask.key in self.answered):
                self.answered[ask.key] = self.carry_out(ask)
            return self.answered[ask.key] if override else None

    def carry_out(self, ask: Ask) -> Says:
        if ask.method == "POST" and not ask.key:
            return no(422, "no_request_key", "Palestra-Request is missing")
        place = re.fullmatch(r"/arena/(\w+)(?:/([\w-]+))?(?:/(\w+))?", ask.path)
        verb, ident, rest = place.groups() if place else ("", None, None)
        match (ask.method, verb, rest):
            case ("GET", "status", None):
                return Says(200, self.status)
            case ("GET", "rules", None):
                return Says(200, "# Rules\n\nBe fair – and quick.\n".encode())
            case ("POST", "jobs", None):
                return self.submit(ask.body)
            case ("GET", "jobs", None) if ident is None:
                return Says(200, {"jobs": list(self.jobs.values())})
            case (_, "jobs", _) if ident not in self.jobs:
                return no(404, "unknown_job", f"there is no job {ident}")
            case ("GET", "jobs", None):
                return self.wait(ask, self.jobs[str(ident)], lambda job: job)
            case ("GET", "jobs", "log") if f"{ident} {ask.query['stream']}" not in self.logs:
                return no(409, "not_started", f"{ident} has not started, so it has no output yet")
            case ("GET", "jobs", "log"):
                return self.log(self.logs[f"{ident} {ask.query['stream']}"], ask.query)
            case ("POST", "jobs", "cancel"):
                return Says(200, {"job": ident, "state": "stopping"})
            case ("POST", "seals", None):
                return self.seal(ask.body["path"])
            case ("POST", "nominations", None):
                self.nominations.append(
                    {"id": f"A-n{len(self.nominations) + 1}", "state": "copying", "current": False}
                )
                return Says(201, {"nomination": self.nominations[-1]["id"], "state": "copying"})
            case ("GET", "nominations", None):
                found = [n for n in self.nominations if ident in (None, n["id"])]
                return self.wait(
                    ask, found[-1] if found else {}, lambda one: one if ident else {"nominations": found}
                )
            case ("POST", "finish", None) if not ask.body["confirm"]:
                return no(409, "confirm_finish", "$0.37 and 0.40 GPU-h are left; no nomination stands.")
            case ("POST", "finish", None):
                self.status["finished_t"] = "T+0:02:00"
                return Says(200, {"finished_t": "T+0:02:00"})
        return no(404, "unknown_path", f"nothing at {ask.path}")

    def submit(self, body: Json) -> Says:
        if not re.search(r"[a-zA-Z]", body["time"]):
            message = f"time: {body['time']!r} can't be read; write a number with its unit, such as 90m, 2h30m or PT2H"
            return no(422, "bad_input", message, field="time", value=body["time"])
        ident = f"A-j{len(self.jobs) + 1}"
        wait = (
            {"resource": "gpus", "sentence": "GPUs: needs 2, local has 1 free; A-j1 holds 1"}
            if body["gpus"] > 1
            else None
        )
        self.jobs[ident] = job(
            ident, name=body["name"], gpus=body["gpus"], state="queued" if wait else "running", wait=wait
        )
        understood = {
            "time": "1 h 30 min, would end T+12:04 if started now",
            "memory": "2 GiB",
            "gpus": body["gpus"],
        }
        return Says(
            201, {"job": ident, "understood": understood, "state": self.jobs[ident]["state"], "wait": wait}
        )

    def wait(self, ask: Ask, thing: Json, shape: Callable[[Json], Json]) -> Says:
        if "wait" in ask.query:
            self.polled(thing)
        return Says(200, shape(thing))

    def log(self, data: bytes, query: dict[str, str]) -> Says:
        offset, limit = int(query["offset"]), int(query["limit"])
        start = max(0, len(data) + offset) if offset < 0 else offset
        piece = data[start : start + limit]
        return Says(200, piece, {"Palestra-Next-Offset": str(start + len(piece))} if offset >= 0 else {})

    def seal(self, path: str) -> Says:
        from palestra.rules.manifest import artifact_digest, read_manifest

        read = read_manifest(
            (Path(self.socket.parent) / "home" / path / "palestra.manifest.json").read_bytes()
        )
        answer = {
            "checkpoint": "A-k1",
            "artifact": artifact_digest(read),
            "size": read.size,
            "files": len(read.files),
        }
        return Says(200, answer)


class _Server(socketserver.ThreadingUnixStreamServer):
    arena: Arena
    daemon_threads = True
    request_queue_size = 32

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news."""


class _Http(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        arena, url = self.server.arena, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = self.headers.get("Palestra-Request", "")
        ask = Ask(self.command, url.path, dict(parse_qsl(url.query)), key, json.loads(body) if body else {})
        says: Says | None
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            says = no(401, "unknown_token", "this token is not known here")
        else:
            says = arena.reply(ask)
        if says is None:
            return
        data = says.body if isinstance(says.body, bytes) else json.dumps(says.body).encode()
        self.send_response(says.status)
        for name, value in {"Content-Length": str(len(data)), **says.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """A running arena; this process is an agent's shell in the corner's home."""
    folder = Path(tempfile.mkdtemp(prefix="arena-"))  # short: a socket's path has little room
    (folder / "home").mkdir()
    made = Arena(folder / "a.sock")
    made.start()
    monkeypatch.chdir(folder / "home")
    monkeypatch.delenv("PALESTRA_URL", raising=False)
    given = {
        "SOCKET": str(made.socket),
        "TOKEN": TOKEN,
        "SESSION": "A-s1",
        "MODEL": "house-mini",
        "PATIENCE_S": "20",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"PALESTRA_{name}", value)
    monkeypatch.setenv("HOME", str(folder / "home"))
    yield made
    made.stop()
    shutil.rmtree(folder)
