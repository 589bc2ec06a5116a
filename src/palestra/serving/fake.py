"""`python -m palestra.serving.fake --socket PATH`: a model server without a model, for tests and simulations.

It speaks as much of the chat completions protocol as the real ones: /health, /v1/models, /v1/chat/completions. Its words are
the whitespace-separated ones of what it says; `max_tokens`, `stop` and unknown models behave as they do elsewhere.
  echo   says the last message again          fixed  says --text
  loop   says --text until the limit          empty  says nothing
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import socketserver
import sys
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NoReturn

NAMES = ("base", "nominated")
DEFAULT_LIMIT = 64


class _Refused(Exception):
    """A request that gets an error in the shape that clients of the protocol read."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeModel:
    """What it says to whom. Until `ready` (seconds of the monotonic clock) it is healthy but answers nothing (F41)."""

    def __init__(self, answers: str, text: str, names: tuple[str, ...] = NAMES, ready: float = 0.0) -> None:
        self.answers = answers
        self.text = text
        self.names = names
        self.ready = ready

    def complete(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The body of a completion, as for a model that speaks one word a token."""
        if time.monotonic() < self.ready:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the model is loading")
        model = fields.get("model", self.names[-1])
        if model not in self.names:
            raise _Refused(
                HTTPStatus.NOT_FOUND, f"model {model!r} is not served; served are: {', '.join(self.names)}"
            )
        limit = fields.get("max_tokens", DEFAULT_LIMIT)
        if not isinstance(limit, int) or limit < 1:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"max_tokens is {limit!r}; it must be 1 or more")
        words = list(itertools.islice(self._words(model, read_messages(fields)), limit + 1))
        text, finish = " ".join(words[:limit]), "length" if len(words) > limit else "stop"
        for stop in fields.get("stop", ()):
            if stop in text:
                text, finish = text[: text.index(stop)], "stop"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        usage = {"prompt_tokens": 1, "completion_tokens": len(text.split())}
        return {"object": "chat.completion", "model": model, "choices": [choice], "usage": usage}

    def _words(self, model: str, messages: list[dict[str, str]]) -> Iterator[str]:
        said: dict[str, Iterable[str]] = {
            "echo": messages[-1]["content"].split(),
            "fixed": self.text.split(),
            "loop": itertools.cycle(self.text.split()),
            "empty": (),
        }
        # The base answers nothing but what it is asked, so that a nominated model can differ from it.
        return iter(said["echo" if model == "base" and len(self.names) > 1 else self.answers])


def read_messages(fields: dict[str, Any]) -> list[dict[str, str]]:
    """The conversation: at least one message, the last from the user."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(_is_message(one) for one in messages):
        raise _Refused(HTTPStatus.BAD_REQUEST, "messages must be a list of objects with role and content")
    if messages[-1]["role"] != "user":
        raise _Refused(HTTPStatus.BAD_REQUEST, "the last message must be the user's")
    return messages


def _is_message(one: object) -> bool:
    return isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024
    model: FakeModel


class _Asked(BaseHTTPRequestHandler):
    """One connection; requests on it one after another."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/health":
            self._say(HTTPStatus.OK, {"status": "ok"})
        elif self.path == "/v1/models":
            loading = time.monotonic() < self.server.model.ready
            names = () if loading else self.server.model.names
            self._say(
                HTTPStatus.OK, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
            )
        else:
            self._refuse(_Refused(HTTPStatus.NOT_FOUND, f"{self.path} does not exist"))

    def do_POST(self) -> None:
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.path != "/v1/chat/completions":
                raise _Refused(HTTPStatus.NOT_FOUND, f"{self.path} does not exist")
            self._say(HTTPStatus.OK, self.server.model.complete(_read_object(body)))
        except _Refused as error:
            self._refuse(error)

    def _refuse(self, error: _Refused) -> None:
        self._say(
            error.status, {"error": {"message": str(error), "type": "invalid_request_error", "code": None}}
        )

    def _say(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: a log line for each request says nothing new."""


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise _Refused(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
    return fields


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--answers", choices=("echo", "fixed", "loop", "empty"), default="echo")
    parser.add_argument("--text", default="ok", help="what fixed and loop say")
    parser.add_argument("--names", nargs="+", default=list(NAMES), help="the models served; the base echoes")
    parser.add_argument(
        "--slow-start", type=float, default=0.0, metavar="S", help="healthy at once, answers after S seconds"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    with _Server(str(given.socket), _Asked) as server:
        ready = time.monotonic() + given.slow_start
        server.model = FakeModel(given.answers, given.text, tuple(given.names), ready)
        server.serve_forever(poll_interval=0.1)


def _leave(number: int, frame: object) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
