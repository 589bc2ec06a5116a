"""Patience with an upstream: a call goes in, a busy or failing upstream is asked again before its first byte, one answer comes out."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from palestra.ports import PreparedCall, Upstream, UpstreamAnswer
from palestra.rules.errors import Broken
from palestra.rules.units import SECOND, Micros

BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses that say: not now. The same upstream and model are asked again, never another (fairness)."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call is tried."""

    tries: int = 6
    first_wait: Micros = Micros(SECOND)
    """Doubled after every try."""
    longest_wait: Micros = Micros(30 * SECOND)
    total: Micros = Micros(120 * SECOND)
    """No further try begins once the waits would add up to more."""


class Trying:
    """One call's tries. `sent` is true while a request is with the upstream, which may be billed for it."""

    def __init__(self, upstream: Upstream, call: PreparedCall, patience: Patience) -> None:
        self._upstream = upstream
        self._call = call
        self._patience = patience
        self.sent = False
        self.tries = 0

    async def open(self, gone: asyncio.Event) -> UpstreamAnswer:
        """The first good answer, or the last bad one. `Broken` when there was none, or the client gave up between tries."""
        spent = 0.0
        while True:
            answer, error = await self._try()
            if answer is not None and answer.status not in BUSY:
                return answer
            if error is not None and not error.retry:
                raise error
            wait = self._wait(answer)
            spent += wait
            if self.tries >= self._patience.tries or spent > self._patience.total / SECOND:
                if answer is None:
                    assert error is not None
                    raise error
                return answer
            if answer is not None:
                await answer.close()
            self.sent = False
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await gone.wait()
                raise Broken("the client hung up before the upstream took the call")

    async def _try(self) -> tuple[UpstreamAnswer | None, Broken | None]:
        self.tries += 1
        self.sent = True
        try:
            return await self._upstream.open(self._call), None
        except Broken as error:
            self.sent = not error.retry
            return None, error

    def _wait(self, answer: UpstreamAnswer | None) -> float:
        """Seconds: what the upstream asks for, else doubling, both within reason."""
        longest = self._patience.longest_wait / SECOND
        told = header(answer, "retry-after") if answer is not None else None
        with suppress(ValueError, TypeError):
            seconds = float(told or "")
            if seconds >= 0:
                return min(seconds, longest)
        return min(self._patience.first_wait / SECOND * (1 << (self.tries - 1)), longest)


def header(answer: UpstreamAnswer, name: str) -> str | None:
    """The first header of this name, whatever its case."""
    return next((value for key, value in answer.headers if key.lower() == name), None)
