"""A served arena for these tests: the real desk, book and recorder, uvicorn on a real socket, a stand-in upstream on another."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn
from aiohttp import web
from starlette.types import Receive, Scope, Send
from tests.building import RUN, START, competition, events_of, open_run

from palestra.events.base import Event
from palestra.events.codec import Row
from palestra.events.spend import CallCharged, CallReleased
from palestra.gateway.app import Gateway, Limits, Route
from palestra.gateway.patience import Patience
from palestra.gateway.transcript import Recorder
from palestra.gateway.upstream import HttpUpstream, Timeouts
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.journal.writer import SyncWriter
from palestra.ports import StepRow
from palestra.referee.observations import ServerUp, Tick
from palestra.referee.requests import Receipt
from palestra.rules.competition import Model
from palestra.rules.prices import Price
from palestra.rules.units import DOLLAR, Micros, NanoDollars
from palestra.runtime.book import Book
from palestra.runtime.clock import VirtualClock
from palestra.runtime.desk import Desk
from palestra.state.arena import Account

DEADLINE = 60.0
KEY = "sk-the-real-key"
QUICK = Patience(tries=3, first_wait=Micros(1_000), longest_wait=Micros(10_000))
NO_WAIT = Limits(wait=Micros(0), patience=QUICK)
MODEL = Model(
    "house-mini",
    "upstream",
    "real-name-1",
    Price(
        input=NanoDollars(DOLLAR),
        output=NanoDollars(4 * DOLLAR),
        cached_input=NanoDollars(DOLLAR // 10),
        cache_write=NanoDollars(DOLLAR),
    ),
    output_ceiling=4_096,
)
Answering = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


def on_loop(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own, within a deadline."""

    @functools.wraps(scenario)
    def test(*args: Any, **kwargs: Any) -> None:
        async def within() -> None:
            async with asyncio.timeout(DEADLINE):
                await scenario(*args, **kwargs)

        asyncio.run(within())

    return test


async def until(true: Callable[[], bool]) -> None:
    """Return once it is true; the test's deadline is the limit."""
    while not true():  # noqa: ASYNC110  # what is waited for is anything that the test can see, not one event
        await asyncio.sleep(0.002)


class SlowDisk(SyncWriter):
    """A journal whose commits are acknowledged when the test says."""

    def __init__(self, journal: MemoryJournal, record: MemoryRecord) -> None:
        super().__init__(journal, record)
        self.slow = False
        self.waiting: list[Future[None]] = []

    def submit(
        self, rows: Sequence[Row], blobs: Sequence[bytes | Path] = (), steps: Sequence[StepRow] = ()
    ) -> Future[None]:
        done = super().submit(rows, blobs, steps)
        if not self.slow:
            return done
        self.waiting.append(Future())
        return self.waiting[-1]

    def catch_up(self) -> None:
        """Acknowledge all."""
        self.slow = False
        for done in self.waiting:
            done.set_result(None)


class Arena:
    """What a test may look at and act on."""

    def __init__(
        self, desk: Desk, record: MemoryRecord, journal: MemoryJournal, gateway: Gateway, url: str
    ) -> None:
        self.desk = desk
        self.record = record
        self.gateway = gateway
        self.url = url
        self._journal = journal
        self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE))

    @property
    def account(self) -> Account:
        """Corner A's credit."""
        return self.desk.book.state.accounts["A", "api"]

    @property
    def events(self) -> list[Event]:
        """All that was journalled."""
        return events_of(self._journal.read(0, 1_000_000))

    @property
    def charges(self) -> list[CallCharged]:
        """The settled calls."""
        return [event for event in self.events if isinstance(event, CallCharged)]

    @property
    def releases(self) -> list[CallReleased]:
        """The calls that cost nothing."""
        return [event for event in self.events if isinstance(event, CallReleased)]

    def steps(self, corner: str = "A") -> list[StepRow]:
        """The corner's trajectory."""
        return self.record.steps(corner, 0, 1_000_000)

    async def settled(self, calls: int = 1) -> None:
        """Return once so many calls are settled and none is open."""
        await until(
            lambda: len(self.charges) + len(self.releases) >= calls and not self.desk.book.state.calls
        )

    def post(self, body: bytes | dict[str, Any], corner: str = "A", **headers: str) -> Any:
        """A chat completion, as an aiohttp request context."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        told = {"authorization": f"Bearer {corner}", "content-type": "application/json", **headers}
        return self.client.post(f"{self.url}/v1/chat/completions", data=data, headers=told)


class Stand:
    """The stand-in upstream: a real HTTP server that answers as the test says."""

    def __init__(self, answer: Answering) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.open = 0
        self.most_open = 0

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Note the request and answer it."""
        body = await request.read()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self.answer(request, body)
        finally:
            self.open -= 1


@asynccontextmanager
async def standing(answer: Answering) -> AsyncIterator[tuple[Stand, str]]:
    """(stand, its address up to and with `/v1`)."""
    stand = Stand(answer)
    app = web.Application(client_max_size=1 << 27)
    app.router.add_post("/v1/chat/completions", stand.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield stand, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving(
    upstream_url: str,
    *,
    credit: int = DOLLAR,
    models: Sequence[Model] = (MODEL,),
    limits: Limits = NO_WAIT,
    timeouts: Timeouts | None = None,
    writer: Callable[[MemoryJournal, MemoryRecord], SyncWriter] = SyncWriter,
) -> AsyncIterator[Arena]:
    """An arena whose models are all at `upstream_url`, in its running stage."""
    clock, book = VirtualClock(START), Book(RUN)
    journal, record = MemoryJournal(RUN), MemoryRecord()
    desk = Desk(book, writer(journal, record), clock)
    rules = msgspec.structs.replace(competition(api_credit=credit), models=tuple(models))
    assert isinstance(await desk.ask(open_run(rules)), Receipt)
    await desk.tell(ServerUp(1, "0"))
    await desk.tell(Tick())
    assert book.state.clock.stage == "running"
    upstream = HttpUpstream(timeouts)
    routes = {model.upstream: Route(upstream_url, KEY) for model in models}
    gateway = Gateway(desk, models, routes, upstream, Recorder(desk, clock), limits)
    async with _listening(gateway) as url:
        arena = Arena(desk, record, journal, gateway, url)
        try:
            yield arena
        finally:
            await arena.client.close()
            await gateway.drain(0)
            await upstream.close()


@asynccontextmanager
async def _listening(gateway: Gateway) -> AsyncIterator[str]:
    """Serve as the web room does: it knows the corner by the token and puts it in the scope."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["palestra.corner"] = dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer ")
        await gateway(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        config = uvicorn.Config(
            app, lifespan="off", log_level="error", timeout_graceful_shutdown=1, ws="none"
        )
        server = uvicorn.Server(config)
        served = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await served


async def noticed() -> None:
    """Return once the gateway knows of every hang-up: no exchange listens for one any more."""
    await until(lambda: not any("Caller.listen" in repr(task.get_coro()) for task in asyncio.all_tasks()))


BROKEN_OFF = r"payload|closed|Connection"
"""What aiohttp says of an answer that breaks off."""


def ask(text: str = "hello", /, **fields: Any) -> dict[str, Any]:
    """A small request body."""
    return {"model": "house-mini", "messages": [{"role": "user", "content": text}], **fields}


def usage(fresh: int, output: int, cached: int = 0) -> dict[str, Any]:
    """A usage block as OpenAI writes it."""
    return {
        "prompt_tokens": fresh + cached,
        "completion_tokens": output,
        "total_tokens": fresh + cached + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def completion(
    text: str = "hi", told: dict[str, Any] | None = None, finish: str = "stop", **message: Any
) -> bytes:
    """A whole answer; spaced as no encoder of ours would."""
    answer: dict[str, Any] = {
        "id": "x", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}],
    }  # fmt: skip
    if told is not None:
        answer["usage"] = told
    return msgspec.json.format(msgspec.json.encode(answer), indent=3)


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One chunk of a stream; without a delta it has no choice."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + msgspec.json.encode({"id": "x", "choices": choices, **fields}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def whole(body: bytes, status: int = 200, /, **headers: str) -> Answering:
    """Answers everything with this body."""

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"content-type": "application/json", **headers})

    return answer


async def stream(request: web.Request, pieces: Sequence[bytes]) -> web.StreamResponse:
    """Answer with these pieces as a stream."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response
