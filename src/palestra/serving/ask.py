"""Asks a served model one question over its unix socket: question and answer settings in, the answer as given out."""

from __future__ import annotations

import http.client
import json
import math
import socket
import time
from http import HTTPStatus
from typing import Any

from palestra.events.nominations import AnswerSettings
from palestra.ports import Answer, Endpoint, Question
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import SECOND, Micros

LARGEST_ANSWER = 8 << 20
"""Bytes of a response's body that are read."""
PATIENCE = Micros(300 * SECOND)


class Unanswered(Broken):
    """No answer: the server said no (`status`), or couldn't be reached (`status` 0)."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket, with one deadline for the whole exchange."""

    def __init__(self, path: str, deadline: float) -> None:
        super().__init__("localhost")
        self.path = path
        self.deadline = deadline
        self.wire = socket.socket(socket.AF_UNIX)

    def connect(self) -> None:
        self.sock = self.wire
        self.hurry()
        self.wire.connect(self.path)

    def hurry(self) -> None:
        """Let the next wait last only as long as is left."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self.wire.settimeout(left)


def ask(
    endpoint: Endpoint, question: Question, settings: AnswerSettings, patience: Micros = PATIENCE
) -> Answer:
    """One question, asked once. A model that gives no answer gives one with `finish` `error`."""
    try:
        return ask_or_raise(endpoint, question, settings, patience)
    except Unanswered:
        return Answer(question.id, "", "error")


def ask_or_raise(
    endpoint: Endpoint, question: Question, settings: AnswerSettings, patience: Micros = PATIENCE
) -> Answer:
    """The same, but what went wrong is said by `Unanswered`."""
    body = request_body(endpoint.model, question, settings)
    said = exchange(endpoint.socket, "POST", "/v1/chat/completions", body, patience)
    try:
        choice = said["choices"][0]
        text, finish = choice["message"]["content"], choice["finish_reason"]
    except (KeyError, IndexError, TypeError):
        raise Unanswered(
            f"the answer to {question.id} is not a chat completion: {str(said)[:200]}", 200
        ) from None
    return Answer(
        question.id,
        text if isinstance(text, str) else "",
        finish if finish in ("stop", "length") else "error",
    )


def request_body(model: str, question: Question, settings: AnswerSettings) -> dict[str, Any]:
    """A chat completion with the nomination's settings: they are applied here, so that every server behaves alike."""
    system = [("system", settings.system_prompt)] if settings.system_prompt else []
    numbers = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "repetition_penalty": settings.repetition_penalty,
    }
    return {
        "model": model,
        "messages": [{"role": role, "content": content} for role, content in (*system, *question.messages)],
        "max_tokens": min(question.max_tokens, settings.max_tokens),
        **{name: _number(name, value) for name, value in numbers.items() if value},
        **({"stop": list(settings.stop)} if settings.stop else {}),
    }


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f"settings: {name}", text, "a decimal number, such as 0.7")
    return value


def list_models(path: str, patience: Micros = PATIENCE) -> list[str]:
    """The names that the server answers to."""
    said = exchange(path, "GET", "/v1/models", None, patience)
    models = said.get("data")
    if not isinstance(models, list) or not all(
        isinstance(one, dict) and isinstance(one.get("id"), str) for one in models
    ):
        raise Unanswered(f"/v1/models gave {str(said)[:200]}", 200)
    return [one["id"] for one in models]


def is_healthy(path: str, patience: Micros = PATIENCE) -> bool:
    """Whether `/health` says 200. A server that isn't up yet is not healthy."""
    try:
        _exchange(path, "GET", "/health", None, patience)
    except Unanswered:
        return False
    return True


def exchange(
    path: str, method: str, target: str, body: dict[str, Any] | None, patience: Micros
) -> dict[str, Any]:
    """One request and its JSON answer; `Unanswered` for anything but a 200 with an object."""
    data = _exchange(path, method, target, body, patience)
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise Unanswered(f"{target} gave something that is not JSON: {_shown(data)}", 200) from None
    if not isinstance(said, dict):
        raise Unanswered(f"{target} gave no JSON object: {_shown(data)}", 200)
    return said


def _exchange(path: str, method: str, target: str, body: dict[str, Any] | None, patience: Micros) -> bytes:
    connection = _UnixConnection(path, time.monotonic() + patience / SECOND)
    try:
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, target, sent, {"Content-Type": "application/json"} if sent else {})
        response = connection.getresponse()
        data = bytearray()
        while piece := response.read1(1 << 16):
            connection.hurry()
            data += piece
            if len(data) > LARGEST_ANSWER:
                raise Unanswered(f"{target} gave more than {LARGEST_ANSWER:,} bytes", response.status)
        if response.length:  # the other side went away in the middle
            raise http.client.IncompleteRead(bytes(data), response.length)
    except (OSError, http.client.HTTPException) as error:
        raise Unanswered(f"{target} could not be asked: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
        connection.wire.close()
    if response.status != HTTPStatus.OK:
        raise Unanswered(f"{target} answered {response.status}: {_shown(bytes(data))}", response.status)
    return bytes(data)


def _shown(data: bytes) -> str:
    return data[:400].decode("utf-8", "replace")
