"""Shutting down and failing inside: every reserved call is settled, nobody is left waiting."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from aiohttp import web
from tests.gateway.arena import (
    BROKEN_OFF,
    QUICK,
    ask,
    completion,
    event,
    on_loop,
    serving,
    standing,
    until,
    usage,
    whole,
)

from palestra.gateway.app import Limits
from palestra.gateway.transcript import Exchange, Recorded
from palestra.referee.requests import Pause
from palestra.rules.units import SECOND, Micros


@on_loop
async def test_draining_lets_open_calls_end_and_refuses_new_ones() -> None:
    """An open stream ends by itself within the time; a waiting call and a new one are told to come back."""
    go_on = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(body=completion(told=usage(2, 3)), content_type="application/json")

    limits = Limits(wait=Micros(500 * SECOND), patience=QUICK)
    async with standing(answer) as (stand, url), serving(url, limits=limits) as arena:
        going = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: stand.open == 1)
        await arena.desk.ask(Pause("organiser:sam", None, "stop"))
        waiting = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: "paused" in {code for _, code, _ in arena.desk.book.state.refused})
        draining = asyncio.create_task(arena.gateway.drain(30))
        assert (await waiting).status == 503
        async with arena.post(ask()) as response:
            assert response.status == 503
            assert msgspec.json.decode(await response.read())["error"]["code"] == "stopping"
        assert not draining.done()
        go_on.set()
        assert (await going).status == 200
        await draining
        (charge,) = arena.charges
        assert not charge.estimated and not arena.desk.book.state.calls


@pytest.mark.parametrize("started", [True, False])
@on_loop
async def test_draining_cuts_what_goes_on_for_too_long_and_settles_it(started: bool) -> None:
    """F05: a stream that has begun, or an upstream that still thinks: cut, charged at the hold, never left open."""
    never = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if started:
            await response.prepare(request)
            await response.write(event({"content": "and so on"}))
        await never.wait()
        return response

    async with standing(answer) as (stand, url), serving(url) as arena:
        going = asyncio.create_task(arena.post(ask(stream=True)).__aenter__())
        await until(lambda: stand.open == 1)
        if started:
            await going
        await arena.gateway.drain(0)
        (charge,) = arena.charges
        assert (charge.finish, charge.estimated) == ("cut", True)
        assert arena.account.held == 0
        response = await going
        if started:
            with pytest.raises(Exception, match=BROKEN_OFF):
                await response.read()
        else:
            assert response.status == 503


@on_loop
async def test_a_record_that_cant_be_written_still_settles_the_money() -> None:
    """The charge stands, without steps, and an organiser hears of it."""

    def broken(exchange: Exchange) -> Recorded:
        raise OSError("no space left")

    async with standing(whole(completion(told=usage(2, 3)))) as (_, url), serving(url) as arena:
        arena.gateway._office.record = broken
        async with arena.post(ask()) as response:
            assert response.status == 200
        await arena.settled()
        (charge,) = arena.charges
        assert (charge.steps, charge.estimated) == (0, False)
        assert "no space left" in arena.desk.book.state.alarms["not_recorded:A-c1"]


@on_loop
async def test_a_hang_up_while_waiting_leaves_the_line_without_a_call() -> None:
    """Nothing is held for a client that left before its turn came."""
    limits = Limits(wait=Micros(500 * SECOND), patience=QUICK)
    async with (
        standing(whole(completion(told=usage(2, 3)))) as (stand, url),
        serving(url, limits=limits) as arena,
    ):
        await arena.desk.ask(Pause("organiser:sam", None, "stop"))
        waiting = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: "paused" in {code for _, code, _ in arena.desk.book.state.refused})
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: not arena.gateway._open)
        assert not arena.charges and not arena.releases and not stand.bodies


@on_loop
async def test_a_hang_up_between_two_tries_frees_the_money() -> None:
    """The upstream is busy, the client has left: no further try, nothing owed."""
    limits = Limits(
        patience=msgspec.structs.replace(
            QUICK, first_wait=Micros(50 * SECOND), longest_wait=Micros(50 * SECOND)
        )
    )
    async with standing(whole(b"{}", 503)) as (stand, url), serving(url, limits=limits) as arena:
        waiting = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: len(stand.bodies) == 1 and stand.open == 0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await arena.settled()
        (release,) = arena.releases
        assert release.status == 499 and len(stand.bodies) == 1 and not arena.desk.book.state.alarms


@on_loop
async def test_a_client_that_takes_nothing_counts_as_gone() -> None:
    """F05: the money isn't held for as long as a client refuses to read; the upstream is read on and settles it."""
    limits = Limits(stall=Micros(SECOND // 20), patience=QUICK)
    big = event({"content": "x" * 100_000})

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(200):
            await response.write(big)
        await response.write(event({}, "stop") + event(usage=usage(7, 8)))
        return response

    async with standing(answer) as (_, url), serving(url, limits=limits) as arena:
        async with arena.post(ask(stream=True)):
            await arena.settled()
        (charge,) = arena.charges
    assert charge.hung_up and charge.usage.output == 8


@on_loop
async def test_a_no_of_the_upstreams_that_never_ends_is_free() -> None:
    """Its status alone says that nothing is owed."""
    never = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(status=400)
        await response.prepare(request)
        await response.write(b'{"error": ')
        await never.wait()
        return response

    async with standing(answer) as (stand, url), serving(url) as arena:
        going = asyncio.create_task(arena.post(ask()).__aenter__())
        await until(lambda: stand.open == 1)
        await until(
            lambda: any(one._trying and not one._trying.sent for one in arena.gateway._office.carriages)
        )
        await arena.gateway.drain(0)
        assert (await going).status == 503
        assert len(arena.releases) == 1 and arena.account.spent == 0
