"""One reserved call on its way: the prepared call goes to the upstream, its bytes come back to the client, a verdict on the money out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from palestra.gateway.caller import Caller
from palestra.gateway.patience import BUSY, Patience, Trying, header
from palestra.gateway.protocols.shape import Asked, Reading, Tap, WireProtocol
from palestra.ports import PreparedCall, Upstream, UpstreamAnswer
from palestra.rules.errors import Broken, PalestraError, Refusal

CUT = "cut"
"""The finish of an answer that the upstream, or the arena, broke off."""
OURS = frozenset({401, 402, 403, 407})
"""Statuses by which an upstream refuses the arena's own key or account; no business of the entrant's (it may name both)."""
LONGEST_ERROR = 1 << 20
_PASSED = frozenset({"content-type", "content-language", "cache-control", "x-should-retry"})
"""Headers of an upstream that reach the client; others may name its organisation, account or limits."""


LONGEST_ANSWER = 64 << 20
"""Bytes of one answer; a longer one is cut, and settled as cut."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, as far as money and record are concerned."""

    used: bool
    """False: nothing is owed."""
    status: int
    why: str = ""
    reading: Reading | None = None
    finish: str = ""
    answered: bytes = b""
    trouble: str = ""
    """What an organiser must look at; empty when the upstream is well."""


class Carriage:
    """Carries one call. It goes on after the client hung up, so that the upstream's own usage settles it (F05)."""

    def __init__(
        self,
        caller: Caller,
        protocol: WireProtocol,
        asked: Asked,
        *,
        patience: Patience,
        drain: float,
        retry_after: int,
    ) -> None:
        self._caller = caller
        self._protocol = protocol
        self._asked = asked
        self._patience = patience
        self._drain = drain
        self._retry_after = retry_after
        self._limit: asyncio.Timeout | None = None
        self._trying: Trying | None = None
        self._tap: Tap | None = None
        self._status = 0
        self._answered: list[bytes] = []

    def cut(self, after: float = 0.0) -> None:
        """End it in `after` seconds, if it hasn't ended by itself."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + after)

    async def carry(
        self, upstream: Upstream, call: PreparedCall, headers: Iterable[tuple[str, str]]
    ) -> Verdict:
        """Ask the upstream and pass its answer on; `headers` are the gateway's own. Raises nothing of the world's."""
        self._trying = Trying(upstream, call, self._patience)
        answer: UpstreamAnswer | None = None
        try:
            async with asyncio.timeout(None) as self._limit:
                self._caller.when_gone(lambda: self.cut(self._drain))
                answer = await self._trying.open(self._caller.gone)
                passed = [(name.lower(), value) for name, value in answer.headers if name.lower() in _PASSED]
                if answer.status >= 300:
                    return await self._pass_error(answer, passed, headers)
                return await self._pass(answer, [*passed, *headers])
        except (TimeoutError, Broken) as error:
            return await self._broken_off(error, headers)
        finally:
            self._caller.when_gone(None)
            self._limit = None
            if answer is not None:
                await answer.close()

    async def _pass(self, answer: UpstreamAnswer, headers: list[tuple[str, str]]) -> Verdict:
        tap = self._protocol.tap(self._asked, header(answer, "content-type") or "")
        self._tap, self._status = tap, answer.status
        await self._caller.start(answer.status, headers)
        room = LONGEST_ANSWER
        async for chunk in answer.chunks():
            room -= len(chunk)
            if room < 0:
                raise Broken(f"the answer has more than {LONGEST_ANSWER} bytes", retry=False)
            self._answered.append(chunk)
            await self._caller.write(tap.feed(chunk))
        await self._caller.write(tap.close())
        await self._caller.finish()
        return self._heard(tap)

    def _heard(self, tap: Tap, finish: str | None = None) -> Verdict:
        reading = tap.read()
        finish = reading.finish if finish is None else finish
        answered = b"".join(self._answered)
        return Verdict(used=True, status=self._status, reading=reading, finish=finish, answered=answered)

    async def _broken_off(self, error: TimeoutError | Broken, headers: Iterable[tuple[str, str]]) -> Verdict:
        """The upstream's end came too early, or the arena's own. What a request that is with it costs, nobody knows."""
        if self._tap is not None:
            self._tap.close()
            return self._heard(self._tap, CUT)
        gone = self._caller.gone.is_set()
        if isinstance(error, Broken):
            await self._reply(error, headers)
            status = 499 if gone else 502 if error.retry else 504
            return Verdict(
                used=not error.retry,
                status=status,
                why=str(error),
                finish=CUT,
                trouble="" if gone else str(error),
            )
        await self._reply(
            Refusal("stopping", "the arena's server is stopping; ask again", retry=True), headers
        )
        sent = self._trying is not None and self._trying.sent
        return Verdict(used=sent, status=504, why="cut before the upstream answered", finish=CUT)

    async def _pass_error(
        self, answer: UpstreamAnswer, passed: list[tuple[str, str]], headers: Iterable[tuple[str, str]]
    ) -> Verdict:
        """A no of the upstream's goes on as it is, but for those about the arena's own account, limits or address."""
        status, trouble = answer.status if 100 <= answer.status < 600 else 502, ""
        if self._trying is not None:
            self._trying.sent = False  # refused: even if it is cut from here on, nothing is owed
        body = await _read(answer)
        if status in OURS or status < 400:
            trouble = f"it answered {status} to the arena's own key"
            error: PalestraError = Refusal(
                "upstream_refused", "the upstream doesn't take the arena's calls just now", retry=True
            )
        elif status == 429:
            trouble = "it answers 429: the arena's own rate limit there is used up"
            error = Refusal("upstream_busy", "the upstream has too many calls just now", retry=True)
        else:
            if status in BUSY:
                trouble = f"it answers {status}"
                passed = [*passed, ("retry-after", str(self._retry_after))]
            await self._caller.reply(status, [*passed, *headers], body)
            return self._refused(status, body, trouble)
        await self._reply(error, headers)
        return self._refused(status, body, trouble)

    def _refused(self, status: int, body: bytes, trouble: str) -> Verdict:
        """Status 400 and above costs nothing, unless the upstream itself tells of usage."""
        tap = self._protocol.tap(self._asked, "application/json")
        tap.feed(body)
        tap.close()
        reading = tap.read()
        return Verdict(
            used=reading.usage is not None,
            status=status,
            why=f"the upstream answered {status}",
            reading=reading,
            finish="error",
            answered=body,
            trouble=trouble,
        )

    async def _reply(self, error: PalestraError, headers: Iterable[tuple[str, str]]) -> None:
        if not self._caller.started:
            reply = self._protocol.refuse(error, self._retry_after)
            await self._caller.reply(reply.status, [*reply.headers, *headers], reply.body)


async def _read(answer: UpstreamAnswer) -> bytes:
    """The body of an error, as far as it comes and is sensible."""
    parts: list[bytes] = []
    try:
        async for chunk in answer.chunks():
            parts.append(chunk)
            if sum(map(len, parts)) > LONGEST_ERROR:
                break
    except Broken:
        pass
    return b"".join(parts)[:LONGEST_ERROR]
