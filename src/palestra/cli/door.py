"""The organiser's verbs talk to a served run here: a verb and a body in, its JSON answer out."""

from __future__ import annotations

import getpass
import http.client
import secrets
import shlex
import socket
from pathlib import Path
from typing import Any

import msgspec

from palestra.cli.naming import as_called
from palestra.rules.errors import Broken, Refusal
from palestra.runtime.folder import RunFolder

PATIENCE = 60.0
"""Seconds to wait for an answer."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("run", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


def how_to_go_on(folder: RunFolder) -> str:
    """The command that serves this run again, from the folder where this one was called."""
    runs = folder.path.parent
    where = "" if runs == Path("runs").absolute() else f" --runs {shlex.quote(str(runs))}"
    return f"{as_called()} run --run {folder.path.name}{where}"


def call(folder: RunFolder, method: str, path: str, **body: object) -> dict[str, Any]:
    """Ask the run's server; its refusal is raised here, `Broken` when no server answers."""
    folder.read()
    connection = _Connection(folder.control_socket)
    payload = msgspec.json.encode({"by": getpass.getuser(), **body}) if method == "POST" else None
    headers = {"content-type": "application/json", "palestra-request": secrets.token_hex(8)}
    try:
        connection.request(method, path, payload, headers)
        answer = connection.getresponse()
        data: dict[str, Any] = msgspec.json.decode(answer.read())
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
        raise Broken(
            f"no server answers for {folder.path} ({why}); start one with: {how_to_go_on(folder)}"
        ) from None
    finally:
        connection.close()
    if "error" in data:
        raise Refusal(data["error"]["code"], data["error"]["message"])
    return data
