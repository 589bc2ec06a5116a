"""Upstreams over HTTP: a prepared call goes out over TCP or a unix socket, the answer's bytes come in as they arrive."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence

import aiohttp
import msgspec

from palestra.ports import PreparedCall
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import SECOND, Micros

_ASIDE = 1 << 20
"""Bodies above this are read by aiohttp piece by piece."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """There is no limit on an answer as a whole: streams may be long."""

    connect: Micros = Micros(10 * SECOND)
    first_byte: Micros = Micros(600 * SECOND)
    """From the call to the answer's headers; clients announce as much."""
    idle: Micros = Micros(300 * SECOND)
    """Between two chunks."""


class HttpUpstream:
    """Any HTTP server, `http(s)://HOST/...` or `unix:SOCKET:/PATH`. Holds connections; close it at the end."""

    def __init__(self, timeouts: Timeouts | None = None) -> None:
        self._timeouts = timeouts or Timeouts()
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def open(self, call: PreparedCall) -> HttpAnswer:
        """Send it; returns at the answer's headers. `Broken`: not taken (retry), or taken and unanswered (no retry)."""
        socket, url = split_url(call.url)
        body: bytes | io.BytesIO = call.body if len(call.body) < _ASIDE else io.BytesIO(call.body)
        try:
            async with asyncio.timeout(self._timeouts.first_byte / SECOND):
                response = await self._session(socket).post(
                    url, data=body, headers=list(call.headers), allow_redirects=False
                )
        except aiohttp.ClientConnectorError as error:
            raise Broken(
                f"the upstream can't be reached: {error.os_error.strerror or error.os_error}"
            ) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise Broken("the upstream can't be reached: connecting took too long") from error
        except TimeoutError as error:
            raise Broken("the upstream took the call and didn't answer in time", retry=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"the upstream closed the connection before it answered: {_name(error)}") from error
        return HttpAnswer(response, self._timeouts.idle / SECOND)

    async def close(self) -> None:
        """Drop all connections."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    def _session(self, socket: str) -> aiohttp.ClientSession:
        """One pool of connections for TCP, one for each unix socket. Nothing is read from the environment."""
        session = self._sessions.get(socket)
        if session is None:
            connector = aiohttp.UnixConnector(socket, limit=0) if socket else aiohttp.TCPConnector(limit=0)
            session = self._sessions[socket] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._timeouts.connect / SECOND, sock_read=None
                ),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            )
        return session


class HttpAnswer:
    """An answer whose body is still to come."""

    def __init__(self, response: aiohttp.ClientResponse, idle: float) -> None:
        self._response = response
        self._idle = idle
        self.status = response.status
        self.headers: Sequence[tuple[str, str]] = tuple(response.headers.items())

    async def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive. `Broken` when they stop before the end."""
        content = self._response.content
        try:
            while True:
                async with asyncio.timeout(self._idle):
                    chunk = await content.readany()
                if not chunk:
                    return
                yield chunk
        except TimeoutError as error:
            raise Broken("the upstream went silent in the middle of its answer", retry=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(
                f"the upstream broke off in the middle of its answer: {_name(error)}", retry=False
            ) from error

    async def close(self) -> None:
        """Done with it; an answer read to its end gives its connection back, any other loses it."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def split_url(url: str) -> tuple[str, str]:
    """(socket, url): `unix:/run/x.sock:/v1/y` is asked for `/v1/y` over that socket; the socket is empty for TCP."""
    if url.startswith(("http://", "https://")):
        return "", url
    scheme, _, rest = url.partition(":")
    socket, _, path = rest.partition(":")
    if scheme != "unix" or not socket.startswith("/") or not path.startswith("/"):
        raise BadInput("url", url, "write http://HOST:PORT/v1, https://HOST/v1 or unix:/PATH/TO.sock:/v1")
    return socket, "http://upstream" + path


def _name(error: BaseException) -> str:
    return str(error) or type(error).__name__
