"""An application on a socket that is bound already, served by uvicorn until it is told to leave: what doors and the site share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp


class Listener(uvicorn.Server):
    """Signals belong to the run, not to one socket of it."""

    def __init__(self, app: ASGIApp, grace: int) -> None:
        """`grace`: seconds that open answers may take at the end."""
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=grace,
                timeout_keep_alive=75,
                server_header=False,
                date_header=False,
            )
        )
        self._up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does, and say so."""
        await super().startup(sockets)
        self._up.set()

    async def begin(self, bound: socket.socket) -> None:
        """Return once connections are taken."""
        self._task = task = asyncio.create_task(self.serve(sockets=[bound]))
        up = asyncio.create_task(self._up.wait())
        await asyncio.wait({up, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            up.cancel()
            task.result()

    def leave(self) -> None:
        """Take no more connections."""
        self.should_exit = True

    async def gone(self) -> None:
        """Return when the last one is closed."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
