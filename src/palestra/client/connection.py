"""HTTP to the arena over the corner's unix socket, or over TCP: a question out, JSON or bytes back.

Every question is safe to repeat: what changes something carries a request key, so the same question with the same key
gets the same answer. While the server restarts, `ask` and `fetch` therefore repeat it, with back-off, for `patience`.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from palestra.client.errors import BadUsage, Refused, Unreachable

PATIENCE = 60.0  # seconds
TIMEOUT = 60.0  # seconds of silence on an open connection, beyond a long poll's own wait
LATER = (ConnectionError, FileNotFoundError, TimeoutError, BlockingIOError, http.client.HTTPException)
"""What a server that is restarting looks like from outside."""


class Answer(NamedTuple):
    """One HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; `ValueError` when it is something else."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value

    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, if it says so."""
        try:
            return max(0.0, float(self.headers["retry-after"]))
        except (KeyError, ValueError):
            return None


class Connection:
    """Where the arena is and who asks. Each question opens a connection of its own."""

    def __init__(self, place: str, token: str, *, session: str = "", patience: float = PATIENCE) -> None:
        """`place` is a socket's path or an http(s) URL; `patience` is in seconds."""
        self.place = place
        self.patience = patience
        self._headers = {"Authorization": f"Bearer {token}"} | (
            {"Palestra-Session": session} if session else {}
        )

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str], timeout: float) -> Answer:
        """Ask once. One of `LATER` when a restarting server may be the cause, another `OSError` when it can't be."""
        url = urlsplit(self.place) if "://" in self.place else None
        link = _open(self.place, timeout)
        try:
            prefix = url.path.rstrip("/") if url else ""
            link.request(
                method, prefix + path, body or None, {**self._headers, **headers, "Connection": "close"}
            )
            response = link.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            link.close()

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, key: str = "", wait: float = 0
    ) -> dict[str, Any]:
        """The arena's JSON answer; `Refused` for its no, `Unreachable` when none came. `wait` is a long poll's, in seconds."""
        answer = self.fetch(method, path, body, key=key, wait=wait)
        try:
            return answer.json()
        except ValueError:
            raise Unreachable(
                f"{self.place} answered {method} {path} with something that isn't JSON"
            ) from None

    def fetch(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, key: str = "", wait: float = 0
    ) -> Answer:
        """As `ask`, for an answer that is text or bytes."""
        data = (
            b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape")
        )
        headers = {"Content-Type": "application/json"} if data else {}
        if key:
            headers["Palestra-Request"] = key
        answer = self._insist(method, path, data, headers, TIMEOUT + wait, key)
        if answer.status >= 400:
            raise _refusal(answer)
        return answer

    def _insist(
        self, method: str, path: str, data: bytes, headers: dict[str, str], timeout: float, key: str
    ) -> Answer:
        deadline, pause, told = time.monotonic() + self.patience, 0.1, False
        while True:
            asked = pause
            try:
                answer = self.send(method, path, data, headers, timeout)
                if answer.status != 503:
                    return answer
                why, asked = _message(answer) or "it is stopping", answer.retry_after() or pause
            except LATER as error:
                why = _reason(error)
            except OSError as error:
                raise Unreachable(f"can't reach the arena at {self.place}: {_reason(error)}") from None
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unreachable(self._gave_up(why, key))
            if pause > 0.5 and not told:
                print(
                    f"arena: waiting for the server ({why}), at most {self.patience:.0f} s", file=sys.stderr
                )
                told = True
            time.sleep(min(asked, left))
            pause = min(2 * pause, 3.0)

    def _gave_up(self, why: str, key: str) -> str:
        repeat = f" It is safe to repeat with --request {key}: nothing is done twice." if key else ""
        return f"the arena at {self.place} gave no answer for {self.patience:.0f} s ({why}).{repeat}"


def from_environment(patience: float = PATIENCE) -> Connection:
    """The connection that this shell was given; `Unreachable` says what is missing. PALESTRA_PATIENCE_S overrides `patience`."""
    place = os.environ.get("PALESTRA_URL") or os.environ.get("PALESTRA_SOCKET", "")
    token = os.environ.get("PALESTRA_TOKEN", "")
    if not place or not token:
        missing = "PALESTRA_TOKEN" if place else "PALESTRA_SOCKET"
        raise Unreachable(
            f"{missing} isn't set: `arena` works in an agent's shell. Jobs don't reach the arena."
        )
    text = os.environ.get("PALESTRA_PATIENCE_S", "")
    try:
        patience = float(text) if text else patience
    except ValueError:
        raise BadUsage(f"PALESTRA_PATIENCE_S: {text!r} isn't a number of seconds") from None
    return Connection(place, token, session=os.environ.get("PALESTRA_SESSION", ""), patience=patience)


class _UnixLink(http.client.HTTPConnection):
    """An HTTP connection through a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _open(place: str, timeout: float) -> http.client.HTTPConnection:
    if "://" not in place:
        return _UnixLink(place, timeout)
    url = urlsplit(place)
    if url.scheme == "https":
        return http.client.HTTPSConnection(url.netloc, timeout=timeout)
    return http.client.HTTPConnection(url.netloc, timeout=timeout)


def _refusal(answer: Answer) -> Refused | Unreachable:
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        error, code = {}, f"http_{answer.status}"
        message = answer.body[:200].decode("utf-8", "replace").strip() or "no explanation came with it"
    if answer.status >= 500:
        return Unreachable(f"the server failed ({answer.status}, {code}): {message}")
    return Refused(
        code, message, field=str(error.get("field") or ""), value=error.get("value"), facts=error.get("facts")
    )


def _message(answer: Answer) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def _reason(error: Exception) -> str:
    match error:
        case ConnectionRefusedError():
            return "connection refused"
        case FileNotFoundError():
            return "no socket there"
        case TimeoutError():
            return "no answer in time"
        case ConnectionError() | http.client.HTTPException():
            return "connection lost"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
