"""The gateway: an entrant's model call comes in over ASGI, is held, carried and settled, and the upstream's bytes go back.

The one way to a model: what isn't a route here is denied (F08). Real keys exist only here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from starlette.types import Receive, Scope, Send

from palestra.gateway.caller import Caller
from palestra.gateway.line import Line
from palestra.gateway.passage import LONGEST_NAME, Limits, Office, Passage, Route
from palestra.gateway.protocols import find_protocol
from palestra.gateway.protocols.chat import CHAT
from palestra.gateway.protocols.shape import WireProtocol
from palestra.gateway.transcript import Record
from palestra.ports import Desk, Upstream
from palestra.rules.competition import Model
from palestra.rules.errors import BadInput, Broken, PalestraError, Refusal
from palestra.rules.units import SECOND

log = logging.getLogger(__name__)

__all__ = ["Gateway", "Limits", "Route"]


class Gateway:
    """A raw ASGI application. `scope["palestra.corner"]` is the authenticated corner's letter."""

    def __init__(
        self,
        desk: Desk,
        models: Sequence[Model],
        routes: Mapping[str, Route],
        upstream: Upstream,
        record: Record,
        limits: Limits | None = None,
    ) -> None:
        """`routes` are by the name of the upstream that a model's rule names."""
        self._office = Office(desk, models, routes, upstream, record, limits or Limits())
        self._seats: dict[str, _Seat] = {}
        self._open: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP exchange."""
        if scope["type"] != "http":
            raise RuntimeError(f"the gateway speaks HTTP only, not {scope['type']}")
        corner = cast(str, scope["palestra.corner"])
        caller = Caller(scope, receive, send, stall=self._office.limits.stall / SECOND)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        protocol = find_protocol(path)
        if scope["method"] == "GET" and path == "/v1/models":
            await caller.reply(200, [("content-type", "application/json")], self._list_models())
        elif protocol is None or scope["method"] != "POST":
            text = f"{scope['method']} {path[:LONGEST_NAME]} isn't a route of this gateway"
            await self._say_no(caller, CHAT, corner, Refusal("unknown_route", text))
        else:
            await self._accept(caller, protocol, corner, path)

    def wake(self) -> None:
        """Something changed that waiting calls don't hear of by themselves: a pause ended, credit was corrected."""
        for seat in self._seats.values():
            seat.line.move()

    async def drain(self, seconds: float) -> None:
        """Shut down: no new calls; open ones may end within `seconds`, then they are cut and settled as they stand."""
        self._office.stopping = True
        for seat in self._seats.values():
            seat.line.rouse()
        if self._open:
            await asyncio.wait(self._open, timeout=seconds)
        for carriage in self._office.carriages:
            carriage.cut()
        if self._open:
            await asyncio.wait(self._open)

    async def _accept(self, caller: Caller, protocol: WireProtocol, corner: str, path: str) -> None:
        """Read the body, then see the call through in a task that outlives this exchange when the client hangs up."""
        seat = self._seats.setdefault(corner, _Seat())
        if seat.calls >= self._office.limits.calls_at_once:
            text = f"{seat.calls} calls of this corner are open, the most there may be"
            await self._say_no(caller, protocol, corner, Refusal("too_many_calls", text, retry=True))
            return
        seat.calls += 1
        try:
            body = await caller.body(self._office.limits.body)
        except Refusal as refusal:
            seat.calls -= 1
            await self._say_no(caller, protocol, corner, refusal)
            return
        except BaseException:
            seat.calls -= 1
            raise
        passage = asyncio.create_task(self._serve(seat, caller, protocol, corner, path, body))
        self._open.add(passage)
        passage.add_done_callback(self._open.discard)
        listening = asyncio.create_task(caller.listen())
        try:
            await asyncio.wait((passage, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
            if not passage.done():
                caller.hang_up()
                seat.line.rouse()

    async def _serve(
        self, seat: _Seat, caller: Caller, protocol: WireProtocol, corner: str, path: str, body: bytes
    ) -> None:
        """A passage, with every no told to the client."""
        try:
            await Passage(self._office, seat.line, caller, protocol, corner).go(path, body)
        except (BadInput, Refusal) as error:
            await self._say_no(caller, protocol, corner, error)
        except Broken as error:
            log.error("a call of corner %s couldn't be ruled on: %s", corner, error)
            unruled = Refusal("arena_unavailable", "the arena can't rule on calls just now", retry=True)
            await self._say_no(caller, protocol, corner, unruled)
        except Exception:
            log.exception("a call of corner %s failed inside the gateway", corner)
            await self._say_no(caller, protocol, corner, PalestraError("the gateway failed on this call"))
        finally:
            seat.calls -= 1

    async def _say_no(
        self, caller: Caller, protocol: WireProtocol, corner: str, error: PalestraError
    ) -> None:
        if not caller.started:
            reply = protocol.refuse(error, self._office.limits.retry_after)
            await caller.reply(reply.status, [*reply.headers, *self._office.account(corner)], reply.body)

    def _list_models(self) -> bytes:
        """The models of this competition, with their prices."""
        data = [
            {
                "id": model.name,
                "object": "model",
                "created": 0,
                "owned_by": "palestra",
                "max_output_tokens": model.output_ceiling,
                "nano_dollars_per_million_tokens": msgspec.to_builtins(model.price),
            }
            for model in self._office.models.values()
        ]
        return msgspec.json.encode({"object": "list", "data": data})


class _Seat:
    """What the gateway keeps of one corner."""

    def __init__(self) -> None:
        self.line = Line()
        self.calls = 0
