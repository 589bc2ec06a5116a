"""One HTTP exchange with an entrant over ASGI: the body in, the answer out, and the news that the caller hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from starlette.types import Receive, Scope, Send

from palestra.rules.errors import Refusal
from palestra.rules.units import show_size

Headers = Iterable[tuple[str, str]]


class Caller:
    """The client's end of a call. Once it hung up, writing to it does nothing."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, stall: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._stall = stall
        self._on_gone: Callable[[], None] | None = None
        self.gone = asyncio.Event()
        self.started = False
        self._finished = False

    async def body(self, longest: int) -> bytes:
        """The whole request body; `Refusal` when it is longer than `longest` bytes."""
        told = dict(self._scope["headers"]).get(b"content-length", b"0")
        parts: list[bytes] = []
        size = int(told) if told.isdigit() else 0
        if size <= longest:
            size = 0
            more = True
            while more and size <= longest:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    self.hang_up()
                    return b""
                part = message.get("body", b"")
                size += len(part)
                parts.append(part)
                more = message.get("more_body", False)
        if size > longest:
            raise Refusal(
                "body_too_large",
                f"the body is longer than {show_size(longest)}, the most that is let through",
            )
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def listen(self) -> None:
        """Returns when the caller has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.hang_up()

    def when_gone(self, then: Callable[[], None] | None) -> None:
        """Call `then` once the caller has hung up: now, if it has already. None: no longer."""
        self._on_gone = then
        if then is not None and self.gone.is_set():
            then()

    def hang_up(self) -> None:
        """The caller is gone; after its answer was complete, that means nothing."""
        if not self.gone.is_set() and not self._finished:
            self.gone.set()
            if self._on_gone is not None:
                self._on_gone()

    async def start(self, status: int, headers: Headers) -> None:
        """Status and headers."""
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self.started = True
        await self._say({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, chunk: bytes) -> None:
        """Body bytes, passed on at once."""
        if chunk:
            await self._say({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self) -> None:
        """The body is complete. An answer that broke off is never finished: the connection closes, so the client knows."""
        self._finished = True
        await self._say({"type": "http.response.body", "body": b"", "more_body": False})

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer."""
        await self.start(status, [*headers, ("content-length", str(len(body)))])
        self._finished = True
        await self._say({"type": "http.response.body", "body": body, "more_body": False})

    async def _say(self, message: dict[str, object]) -> None:
        """A caller that takes nothing for `stall` seconds has hung up, as far as money is concerned."""
        if self.gone.is_set():
            return
        try:
            async with asyncio.timeout(self._stall):
                await self._send(message)
        except (OSError, TimeoutError):
            self.hang_up()
