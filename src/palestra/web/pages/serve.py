"""Opens the site on a loopback port and closes it again, streams first. A site in, an address out."""

from __future__ import annotations

import errno
import socket

from palestra.rules.errors import Broken
from palestra.web.listening import Listener
from palestra.web.pages.site import Site

HOST = "127.0.0.1"
GRACE = 1
"""Seconds that open answers may take when the site closes; streams have ended by then."""


class OpenSite:
    """A site that is served. `close` it before the run stops."""

    def __init__(self, site: Site, listener: Listener, port: int) -> None:
        self._site, self._listener = site, listener
        self.port = port
        self.url = f"http://{HOST}:{port}/"

    async def close(self) -> None:
        """Streams end, then connections, then the socket."""
        self._site.close()
        self._listener.leave()
        await self._listener.gone()


async def open_site(site: Site, port: int = 0) -> OpenSite:
    """Serve on loopback; port 0 takes any that is free. `Broken` when the port is taken."""
    bound = _listen(port)
    await site.begin()
    listener = Listener(site, GRACE)
    await listener.begin(bound)
    return OpenSite(site, listener, bound.getsockname()[1])


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
