"""One call's passage: a client's body in, the desk's hold before and its settlement after, the carriage in between.

No call reaches an upstream before its hold is durable; each reserved call is settled exactly once, whatever happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from palestra.gateway.caller import Caller
from palestra.gateway.carriage import CUT, Carriage, Verdict
from palestra.gateway.line import Line
from palestra.gateway.patience import Patience
from palestra.gateway.protocols.shape import Asked, WireProtocol
from palestra.gateway.transcript import Exchange, Record, Recorded
from palestra.ports import Desk, PreparedCall, Upstream
from palestra.referee.observations import CallAnswered, CallUnused, Trouble, TroubleOver
from palestra.referee.requests import Receipt, ReserveCall
from palestra.rules.competition import Model
from palestra.rules.errors import Refusal
from palestra.rules.units import MIB, SECOND, Bytes, Micros
from palestra.state.accounts import API
from palestra.state.catalog import View

LONGEST_NAME = 200


class Route(msgspec.Struct, frozen=True):
    """Where an upstream is, up to and with its `/v1` (`unix:SOCKET:/v1` too), and the real key."""

    url: str
    key: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway bears."""

    body: Bytes = Bytes(32 * MIB)
    wait: Micros = Micros(60 * SECOND)
    """The longest a call waits for the corner's own held money, or for a pause to end."""
    ask_again: Micros = Micros(5 * SECOND)
    """While nothing is heard of that, the first in line asks the desk this often."""
    retry_after: int = 5
    """Seconds; told to clients that waited in vain."""
    calls_at_once: int = 128
    """Calls of one corner, waiting, open or draining."""
    drain: Micros = Micros(600 * SECOND)
    """How long an upstream is read on after the client hung up."""
    stall: Micros = Micros(300 * SECOND)
    """A client that takes no bytes for so long has hung up."""
    patience: Patience = Patience()


class Office:
    """What all calls share."""

    def __init__(
        self,
        desk: Desk,
        models: Sequence[Model],
        routes: Mapping[str, Route],
        upstream: Upstream,
        record: Record,
        limits: Limits,
    ) -> None:
        self.desk = desk
        self.models = {model.name: model for model in models}
        self.routes = dict(routes)
        self.upstream = upstream
        self.record = record
        self.limits = limits
        self.carriages: set[Carriage] = set()
        self.stopping = False

    def view(self) -> View:
        """What is so now."""
        view: View = self.desk.view()
        return view

    def account(self, corner: str) -> list[tuple[str, str]]:
        """The credit that may still be held, in nano-dollars, as a header."""
        account = self.view().state.accounts.get((corner, API))
        return [] if account is None else [("x-palestra-credit-left", str(account.left))]


class Passage:
    """One call of one corner, from its body to its settlement."""

    def __init__(
        self, office: Office, line: Line, caller: Caller, protocol: WireProtocol, corner: str
    ) -> None:
        self._office = office
        self._line = line
        self._caller = caller
        self._protocol = protocol
        self._corner = corner

    async def go(self, path: str, body: bytes) -> None:
        """All of it. Raises the no that the client must hear; nothing where the client has its answer or is gone."""
        asked = self._protocol.read(path, body)
        call = await self._admit(asked)
        if call is None:
            return
        verdict = Verdict(used=False, status=500, why="the gateway failed before the upstream was asked")
        try:
            route, prepared, headers = self._prepare(asked, call)
            if self._caller.gone.is_set():
                verdict = Verdict(
                    used=False, status=499, why="the client hung up before the upstream was asked"
                )
            elif self._office.stopping:
                verdict = Verdict(used=False, status=503, why="the server was stopping")
                raise _stopping()
            else:
                verdict = Verdict(used=True, status=500, why="the gateway failed on this call", finish=CUT)
                verdict = await self._carry(asked, prepared, headers)
                await self._tell_trouble(route, verdict)
        finally:
            await self._settle(asked, call, verdict, hung_up=self._caller.gone.is_set())

    async def _admit(self, asked: Asked) -> str | None:
        """The reserved call's id; None when the client is gone; raises the desk's no."""
        if self._office.stopping:
            raise _stopping()
        limits, gone = self._office.limits, self._caller.gone
        request = ReserveCall(
            self._corner, None, asked.model[:LONGEST_NAME], asked.input_bound, asked.asked_cap
        )
        answer = await self._line.admit(
            lambda: self._office.desk.ask(request),
            wait=limits.wait / SECOND,
            ask_again=limits.ask_again / SECOND,
            gave_up=lambda: self._office.stopping or gone.is_set(),
        )
        if isinstance(answer, Receipt):
            return answer.id
        if gone.is_set():
            return None
        raise answer or _stopping()

    def _prepare(self, asked: Asked, call: str) -> tuple[str, PreparedCall, list[tuple[str, str]]]:
        """(upstream's name, the call for it, the gateway's own headers for the client)."""
        office = self._office
        opened = office.view().state.calls[call]
        model = office.models[opened.model]
        route = office.routes[model.upstream]
        prepared = self._protocol.prepare(
            asked, route.url, route.key, model.upstream_model, opened.output_cap
        )
        headers = [
            *office.account(self._corner),
            ("x-palestra-call", call),
            ("x-palestra-output-cap", str(opened.output_cap)),
        ]
        return model.upstream, prepared, headers

    async def _carry(self, asked: Asked, prepared: PreparedCall, headers: list[tuple[str, str]]) -> Verdict:
        office, limits = self._office, self._office.limits
        carriage = Carriage(
            self._caller,
            self._protocol,
            asked,
            patience=limits.patience,
            drain=limits.drain / SECOND,
            retry_after=limits.retry_after,
        )
        office.carriages.add(carriage)
        try:
            return await carriage.carry(office.upstream, prepared, headers)
        finally:
            office.carriages.discard(carriage)

    async def _settle(self, asked: Asked, call: str, verdict: Verdict, *, hung_up: bool) -> None:
        """Put the exchange on the record, tell the desk, and let the corner's next call ask."""
        if verdict.used:
            recorded = await self._put_on_record(asked, call, verdict)
            await self._office.desk.tell(
                CallAnswered(
                    call=call,
                    usage=verdict.reading.usage if verdict.reading else None,
                    status=verdict.status,
                    finish=verdict.finish,
                    hung_up=hung_up,
                    asked_body=recorded.asked_body,
                    answered_body=recorded.answered_body,
                    first_step=recorded.first_step,
                    steps=recorded.steps,
                )
            )
        else:
            await self._office.desk.tell(CallUnused(call, verdict.why, verdict.status))
        self._line.move()

    async def _put_on_record(self, asked: Asked, call: str, verdict: Verdict) -> Recorded:
        """Money is settled even where the record can't be written; an organiser hears of it."""
        try:
            return self._office.record(
                Exchange(
                    corner=self._corner,
                    call=call,
                    asked=asked.fields,
                    said_in=self._protocol.said_in,
                    messages=self._protocol.messages(asked),
                    answered=verdict.answered,
                    reply=verdict.reading.reply if verdict.reading else None,
                )
            )
        except Exception as error:
            await self._office.desk.tell(
                Trouble(f"not_recorded:{call}", f"call {call} has no steps on the record: {error}")
            )
            return Recorded()

    async def _tell_trouble(self, upstream: str, verdict: Verdict) -> None:
        """One alarm an upstream, until a call gets through again."""
        alarm = f"upstream:{upstream}"
        if verdict.trouble:
            await self._office.desk.tell(Trouble(alarm, f"upstream {upstream}: {verdict.trouble}"))
        elif verdict.used and alarm in self._office.view().state.alarms:
            await self._office.desk.tell(TroubleOver(alarm))


def _stopping() -> Refusal:
    return Refusal("stopping", "the arena's server is stopping; ask again", retry=True)
