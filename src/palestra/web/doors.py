"""Serves applications on unix sockets with uvicorn; opened last at start, closed first at the end."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from starlette.types import ASGIApp

from palestra.rules.errors import Broken
from palestra.web.listening import Listener

LONGEST_PATH = 100
"""Bytes that a unix socket's path may have (the kernel's limit is 107)."""


GRACE = 2
"""Seconds that open answers may take when the doors close."""


class Doors:
    """Every open door of a server."""

    def __init__(self) -> None:
        self._open: list[tuple[Listener, Path]] = []

    async def open(self, path: Path, app: ASGIApp) -> None:
        """Serve `app` at `path`; a socket that a dead server left there is replaced."""
        listener = Listener(app, GRACE)
        self._open.append((listener, path))
        await listener.begin(_listen(path))

    async def close(self) -> None:
        """No new connections, streams cut after their grace, sockets gone."""
        for listener, _ in self._open:
            listener.leave()
        await asyncio.gather(*(listener.gone() for listener, _ in self._open))
        for _, path in self._open:
            _unlink(path)
        self._open.clear()


def _listen(path: Path) -> socket.socket:
    if len(str(path).encode()) > LONGEST_PATH:
        raise Broken(
            f"{path}: a unix socket's path has at most {LONGEST_PATH} bytes; set TMPDIR to a shorter folder",
            retry=False,
        )
    _unlink(path)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        door.close()
        raise Broken(f"{path}: no socket can be made there: {error.strerror}", retry=False) from error
    return door


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
