"""Opens the site on a loopback port and closes it again, streams first. A site in, an address out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Generator

import uvicorn

from palestra.rules.errors import Broken
from palestra.web.pages.site import Site

HOST = "127.0.0.1"
GRACE = 1
"""Seconds that open answers may take when the site closes; streams have ended by then."""


class _Door(uvicorn.Server):
    """Signals belong to the run; `up` is set once connections are taken."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class OpenSite:
    """A site that is served. `close` it before the run stops."""

    def __init__(self, site: Site, door: _Door, task: asyncio.Task[None], port: int) -> None:
        self._site, self._door, self._task = site, door, task
        self.port = port
        self.url = f"http://{HOST}:{port}/"

    async def close(self) -> None:
        """Streams end, then connections, then the socket."""
        self._site.close()
        self._door.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)


async def open_site(site: Site, port: int = 0) -> OpenSite:
    """Serve on loopback; port 0 takes any that is free. `Broken` when the port is taken."""
    listener = _listen(port)
    await site.begin()
    config = uvicorn.Config(
        site,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
        server_header=False,
        date_header=False,
    )
    door = _Door(config)
    task = asyncio.create_task(door.serve(sockets=[listener]))
    up = asyncio.create_task(door.up.wait())
    await asyncio.wait({up, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        up.cancel()
        task.result()
    return OpenSite(site, door, task, listener.getsockname()[1])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        why = (
            "is taken by another program"
            if error.errno == errno.EADDRINUSE
            else f"can't be used: {error.strerror}"
        )
        raise Broken(
            f"port {port} on {HOST} {why}; give another one, or 0 for any that is free", retry=False
        ) from None
    return listener
