"""The order of things: durable before the upstream, settled after, whoever leaves or fails in between. F05."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.gateway.arena import (
    BROKEN_OFF,
    NO_WAIT,
    SlowDisk,
    ask,
    completion,
    event,
    noticed,
    on_loop,
    serving,
    standing,
    until,
    usage,
    whole,
)

from palestra.gateway.caller import Caller
from palestra.gateway.line import Line
from palestra.gateway.upstream import Timeouts
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.ports import PreparedCall, UpstreamAnswer
from palestra.referee.requests import Receipt
from palestra.rules.errors import Broken, Refusal
from palestra.rules.units import SECOND, Micros


@pytest.mark.parametrize("leaves", [False, True])
@on_loop
async def test_the_upstream_hears_of_a_call_only_once_its_hold_is_durable(leaves: bool) -> None:
    """F04: the commit is slow; nothing goes up before it is done, and nothing at all when the client has left by then."""
    disks: list[SlowDisk] = []

    def disk(journal: MemoryJournal, record: MemoryRecord) -> SlowDisk:
        disks.append(SlowDisk(journal, record))
        return disks[0]

    answers = whole(completion(told=usage(1, 1)))
    async with standing(answers) as (stand, url), serving(url, writer=disk) as arena:
        disks[0].slow = True
        going = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: bool(disks[0].waiting))
        assert arena.account.held > 0 and not stand.bodies
        if leaves:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
            await noticed()
        disks[0].catch_up()
        await arena.settled()
        assert len(stand.bodies) == (0 if leaves else 1)
        assert [release.status for release in arena.releases] == ([499] if leaves else [])


@on_loop
async def test_a_journal_that_cant_be_written_lets_no_call_through() -> None:
    """The client is told to come back; the upstream hears nothing."""

    class BrokenDisk(SlowDisk):
        def submit(self, *args: Any) -> Any:
            done = super().submit(*args)
            if self.slow:
                self.waiting[-1].set_exception(Broken("no space left on the disk"))
            return done

    disks: list[BrokenDisk] = []

    def disk(journal: MemoryJournal, record: MemoryRecord) -> BrokenDisk:
        disks.append(BrokenDisk(journal, record))
        return disks[0]

    async with standing(whole(completion())) as (stand, url), serving(url, writer=disk) as arena:
        disks[0].slow = True
        async with arena.post(ask()) as response:
            said = msgspec.json.decode(await response.read())
            assert (response.status, said["error"]["code"]) == (503, "arena_unavailable")
        assert not stand.bodies


@on_loop
async def test_an_upstream_isnt_read_for_ever_after_a_hang_up() -> None:
    """F05: its stream never ends; after the bounded time it is left, and the hold is charged."""
    never = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(event({"content": "and so on"}))
        await never.wait()
        return response

    limits = msgspec.structs.replace(NO_WAIT, drain=Micros(SECOND // 20))
    async with standing(answer) as (stand, url), serving(url, limits=limits) as arena:
        async with arena.post(ask(stream=True)) as response:
            await response.content.readany()
        await arena.settled()
        (charge,) = arena.charges
        assert (charge.hung_up, charge.estimated, charge.finish) == (True, True, "cut")
        await until(lambda: stand.open == 0)


@pytest.mark.parametrize("started", [False, True])
@on_loop
async def test_an_upstream_that_goes_silent_is_left_and_charged_at_the_hold(started: bool) -> None:
    """Before the first byte: 504, tried once. In the middle: the stream breaks. What it did with the call, nobody knows."""
    never = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if started:
            await response.prepare(request)
            await response.write(event({"content": "and so"}))
        await never.wait()
        return response

    short = Timeouts(idle=Micros(SECOND // 20)) if started else Timeouts(first_byte=Micros(SECOND))
    async with standing(answer) as (stand, url), serving(url, timeouts=short) as arena:
        async with arena.post(ask(stream=True)) as response:
            assert response.status == (200 if started else 504)
            if started:
                with pytest.raises(Exception, match=BROKEN_OFF):
                    await response.read()
        await arena.settled()
        (charge,) = arena.charges
        assert (charge.estimated, charge.finish, len(stand.bodies)) == (True, "cut", 1)


@on_loop
async def test_an_exchange_that_the_server_cancels_counts_as_a_hang_up() -> None:
    """The web server gives up on the connection; the call goes on and is settled."""
    go_on, asked_for = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        asked_for.set()
        await go_on.wait()
        return web.Response(body=completion(told=usage(1, 1)), content_type="application/json")

    async with standing(answer) as (_, url), serving(url) as arena:
        messages = [{"type": "http.request", "body": msgspec.json.encode(ask()), "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError("never")

        async def send(message: MutableMapping[str, Any]) -> None:
            raise AssertionError(f"written to a client that is gone: {message}")

        scope = {
            "type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "palestra.corner": "A",
        }  # fmt: skip
        exchange = asyncio.create_task(arena.gateway(scope, receive, send))
        await asked_for.wait()
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
        go_on.set()
        await arena.settled()
        (charge,) = arena.charges
        assert charge.hung_up and charge.usage.output == 1


@on_loop
async def test_hanging_up_after_the_answer_was_complete_is_no_hang_up() -> None:
    """Servers report a disconnect after every answer."""
    said: list[Any] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    caller = Caller({"type": "http", "headers": []}, receive, send, stall=1)
    await caller.start(200, [])
    await caller.write(b"x")
    await caller.finish()
    await caller.listen()
    assert not caller.gone.is_set() and len(said) == 3
    other = Caller({"type": "http", "headers": []}, receive, send, stall=1)
    await other.start(200, [])
    await other.listen()
    await other.write(b"x")
    assert other.gone.is_set() and len(said) == 4


WAIT, YES = Refusal("credit_held", "wait", retry=True), Receipt("CallReserved", "A-c1", 1)


@on_loop
async def test_the_line_is_served_in_order() -> None:
    """F04: while someone waits, a later call doesn't overtake; only the first asks again."""
    line, asked, money = Line(), list[str](), asyncio.Event()

    async def admit(name: str) -> None:
        async def ask_desk() -> Receipt | Refusal:
            asked.append(name)
            return YES if money.is_set() else WAIT

        await line.admit(ask_desk, wait=500, ask_again=500, gave_up=lambda: False)

    first = asyncio.create_task(admit("first"))
    await until(lambda: asked == ["first"])
    second = asyncio.create_task(admit("second"))
    third = asyncio.create_task(admit("third"))
    await until(lambda: len(line._turns) == 3)
    line.move()
    await until(lambda: asked == ["first"] * 2)
    money.set()
    line.move()
    await asyncio.gather(first, second, third)
    assert asked == ["first", "first", "first", "second", "third"]


@on_loop
async def test_money_that_comes_free_while_the_desk_rules_isnt_missed() -> None:
    """The refusal is older than the money: the call asks again at once, it doesn't wait for the next settlement."""
    line, asked = Line(), list[int]()

    async def ask_desk() -> Receipt | Refusal:
        asked.append(1)
        if len(asked) == 1:
            line.move()
            return WAIT
        return YES

    assert await line.admit(ask_desk, wait=500, ask_again=500, gave_up=lambda: False) is YES


@on_loop
async def test_who_waits_in_vain_gets_the_desks_own_no() -> None:
    """At the end of its time, also the one that never came to be first."""
    line = Line()

    async def ask_desk() -> Receipt | Refusal:
        return WAIT

    answers = await asyncio.gather(
        *(
            line.admit(ask_desk, wait=wait, ask_again=0.01, gave_up=lambda: False)
            for wait in (0.05, 0.03, 0.01)
        )
    )
    assert answers == [WAIT] * 3 and not line._turns


@on_loop
async def test_a_failure_inside_the_gateway_is_charged_at_the_hold() -> None:
    """Once a call may have reached the upstream, only its own word makes it free."""

    class Faulty:
        async def open(self, call: PreparedCall) -> UpstreamAnswer:
            raise RuntimeError("nobody thought of this")

    async with serving("http://127.0.0.1:1/v1") as arena:
        arena.gateway._office.upstream = Faulty()
        async with arena.post(ask()) as response:
            assert response.status == 500 and b"nobody" not in await response.read()
        await arena.settled()
        (charge,) = arena.charges
        assert (charge.estimated, charge.status, charge.finish) == (True, 500, "cut")
