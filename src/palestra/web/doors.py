"""Serves applications on unix sockets with uvicorn; opened last at start, closed first at the end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from palestra.rules.errors import Broken

LONGEST_PATH = 100
"""Bytes that a unix socket's path may have (the kernel's limit is 107)."""


class _Door(uvicorn.Server):
    """Signals belong to the run, not to a door; `up` is set once connections are taken."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class Doors:
    """Every open door of a server."""

    def __init__(self) -> None:
        self._open: list[tuple[_Door, asyncio.Task[None], Path]] = []

    async def open(self, path: Path, app: ASGIApp) -> None:
        """Serve `app` at `path`; a socket that a dead server left there is replaced."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=75,
            server_header=False,
            date_header=False,
        )
        door = _Door(config)
        task = asyncio.create_task(door.serve(sockets=[_listen(path)]))
        self._open.append((door, task, path))
        up = asyncio.create_task(door.up.wait())
        await asyncio.wait({up, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            up.cancel()
            task.result()

    async def close(self) -> None:
        """No new connections, streams cut after their grace, sockets gone."""
        for door, _, _ in self._open:
            door.should_exit = True
        await asyncio.gather(*(task for _, task, _ in self._open), return_exceptions=True)
        for _, _, path in self._open:
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
