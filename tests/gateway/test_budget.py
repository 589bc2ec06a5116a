"""Money: held before the upstream is asked, never overshot, freed and settled after. F04, F05, S84."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from aiohttp import web
from tests.gateway.arena import (
    DONE,
    MODEL,
    NO_WAIT,
    QUICK,
    ask,
    completion,
    event,
    on_loop,
    serving,
    standing,
    stream,
    until,
    usage,
    whole,
)

from palestra.events.spend import CallReserved
from palestra.gateway.app import Limits
from palestra.gateway.protocols.chat import TEMPLATE_TOKENS
from palestra.referee.requests import Finish, Pause, Resume
from palestra.rules.prices import ceiling
from palestra.rules.units import DOLLAR, SECOND, Micros, NanoDollars

CENT = DOLLAR // 100
DEAR = msgspec.structs.replace(
    MODEL,
    price=msgspec.structs.replace(
        MODEL.price, input=NanoDollars(0), cached_input=NanoDollars(0), cache_write=NanoDollars(0),
        output=NanoDollars(400 * DOLLAR),
    ),
    output_floor=256,
)  # fmt: skip
"""1,000 tokens of output cost $0.40, input nothing."""
PATIENT = Limits(wait=Micros(500 * SECOND), ask_again=Micros(500 * SECOND), patience=QUICK)


@on_loop
async def test_ten_calls_at_once_hold_their_worst_case_each() -> None:
    """F04: $1.00 left, ten calls at once of at most $0.40 each: two go, eight are told why not; nothing is overshot."""
    let_go = asyncio.Event()

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        await let_go.wait()
        return web.Response(body=completion(told=usage(10, 1_000)), content_type="application/json")

    async with standing(answer) as (stand, url), serving(url, models=[DEAR]) as arena:

        async def call() -> tuple[int, str | None, str]:
            async with arena.post(ask(max_tokens=1_000)) as response:
                said = msgspec.json.decode(await response.read())
                return (
                    response.status,
                    response.headers.get("retry-after"),
                    said.get("error", {}).get("code", ""),
                )

        calls = [asyncio.create_task(call()) for _ in range(10)]
        await until(lambda: sum(task.done() for task in calls) == 8 and stand.open == 2)
        assert (arena.account.held, arena.account.left) == (80 * CENT, 20 * CENT)
        let_go.set()
        answers = [await task for task in calls]
        await arena.settled(2)
    assert sorted(answers) == [(200, None, "")] * 2 + [(429, "5", "credit_held")] * 8
    assert len(stand.bodies) == 2
    assert (arena.account.spent, arena.account.held) == (80 * CENT, 0)


@on_loop
async def test_calls_wait_for_the_corners_own_held_money_then_shrink_then_stop() -> None:
    """F04, S84: waiting in the gateway; the third call gets a smaller output cap and is told so; the others get a final 402."""

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        cap = msgspec.json.decode(body)["max_tokens"]
        return web.Response(body=completion(told=usage(10, cap)), content_type="application/json")

    async with standing(answer) as (stand, url), serving(url, models=[DEAR], limits=PATIENT) as arena:

        async def call() -> tuple[int, str | None, str | None]:
            async with arena.post(ask(max_tokens=1_000)) as response:
                await response.read()
                told = response.headers
                return response.status, told.get("x-palestra-output-cap"), told.get("x-should-retry")

        answers = await asyncio.gather(*(call() for _ in range(10)))
        await arena.settled(3)
    full, shrunk, spent = (200, "1000", None), (200, "500", None), (402, None, "false")
    assert sorted(answers, key=str) == sorted([full, full, shrunk, *[spent] * 7], key=str)
    assert stand.most_open <= 2
    assert (arena.account.spent, arena.account.left) == (100 * CENT, 0)


@on_loop
async def test_at_zero_calls_are_refused_without_the_upstream_and_the_corner_may_still_finish() -> None:
    """S84: spend to 0, then calls are refused in the way that stops a chat client; finish needs no credit."""
    answers = whole(completion(told=usage(10, 2_500)))
    async with standing(answers) as (stand, url), serving(url, models=[DEAR]) as arena:
        async with arena.post(ask(max_tokens=2_500)) as response:
            assert response.status == 200
        await arena.settled()
        assert arena.account.left == 0
        for _ in range(3):
            async with arena.post(ask()) as response:
                said = msgspec.json.decode(await response.read())
                assert (response.status, said["error"]["type"], said["error"]["code"]) == (
                    402, "insufficient_quota", "insufficient_quota",
                )  # fmt: skip
                assert "nominate" in said["error"]["message"]
                assert response.headers["x-should-retry"] == "false"
                assert response.headers["x-palestra-credit-left"] == "0"
        assert len(stand.bodies) == 1
        assert not hasattr(await arena.desk.ask(Finish("A", None)), "code")
        async with arena.post(ask()) as response:
            said = msgspec.json.decode(await response.read())
            assert (response.status, said["error"]["code"]) == (403, "finished")


@on_loop
async def test_a_call_that_is_too_dear_isnt_the_end() -> None:
    """S84: a long conversation doesn't fit any more: 400, so that the client shortens it; a short one goes through."""
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url, credit=CENT) as arena,
    ):
        async with arena.post(ask("x" * 30_000)) as response:
            said = msgspec.json.decode(await response.read())
            assert (response.status, said["error"]["code"]) == (400, "call_too_dear")
        async with arena.post(ask("x")) as response:
            assert response.status == 200
        assert len(stand.bodies) == 1


@pytest.mark.parametrize("hang_up", [False, True])
@on_loop
async def test_64_streams_never_overshoot_a_cent(hang_up: bool) -> None:
    """F04, F05: 64 concurrent streams against $0.01, with and without hang-ups: spent never passes the credit, all settle."""
    pieces = [event({"content": "word "}) for _ in range(20)]

    async def answer(request: web.Request, body: bytes) -> web.StreamResponse:
        cap = msgspec.json.decode(body)["max_tokens"]
        return await stream(request, [*pieces, event({}, "length"), event(usage=usage(40, cap)), DONE])

    async with standing(answer) as (_, url), serving(url, credit=CENT, limits=PATIENT) as arena:

        async def call(number: int) -> int:
            async with arena.post(ask(stream=True, max_tokens=400)) as response:
                if hang_up and number % 2 and response.status == 200:
                    await response.content.readany()
                    response.close()
                else:
                    await response.read()
                assert arena.account.spent + arena.account.held <= CENT
                return int(response.status)

        statuses = await asyncio.gather(*(call(number) for number in range(64)))
        await until(lambda: not arena.desk.book.state.calls)
        events = arena.events
    assert set(statuses) <= {200, 402}
    served = statuses.count(200)
    assert served == len(arena.charges) and not any(charge.estimated for charge in arena.charges)
    assert arena.account.spent == sum(charge.charge for charge in arena.charges) <= CENT
    assert not any(charge.uncovered for charge in arena.charges)
    body = msgspec.json.encode(ask(stream=True, max_tokens=400))
    assert arena.account.left < ceiling(MODEL.price, len(body) + TEMPLATE_TOKENS, MODEL.output_floor)
    holds = [item.hold for item in events if isinstance(item, CallReserved)]
    assert max(holds) == ceiling(MODEL.price, len(body) + TEMPLATE_TOKENS, 400)


@on_loop
async def test_no_usage_charges_the_hold() -> None:
    """F05: a 200 without usage is charged at what was held, and marked as estimated."""
    async with standing(whole(completion())) as (_, url), serving(url) as arena:
        body = msgspec.json.encode(ask(max_tokens=100))
        async with arena.post(body) as response:
            assert response.status == 200
            assert int(response.headers["x-palestra-credit-left"]) == DOLLAR - ceiling(
                MODEL.price, len(body) + TEMPLATE_TOKENS, 100
            )
        await arena.settled()
        (charge,) = arena.charges
    assert charge.estimated
    assert charge.charge == ceiling(MODEL.price, len(body) + TEMPLATE_TOKENS, 100) == arena.account.spent


@on_loop
async def test_a_pause_is_waited_out() -> None:
    """A call that meets a pause goes on when it ends; one that waits in vain is told when to come back."""
    async with standing(whole(completion(told=usage(1, 1)))) as (stand, url):
        async with serving(url, limits=PATIENT) as arena:
            await arena.desk.ask(Pause("organiser:sam", None, "lunch"))
            waiting = asyncio.create_task(arena.post(ask()).__aenter__())
            await until(lambda: "paused" in {code for _, code, _ in arena.desk.book.state.refused})
            assert not stand.bodies
            await arena.desk.ask(Resume("organiser:sam", None))
            arena.gateway.wake()
            response = await waiting
            assert response.status == 200
            await response.read()
        async with serving(url, limits=NO_WAIT) as arena:
            await arena.desk.ask(Pause("organiser:sam", None, "lunch"))
            async with arena.post(ask()) as response:
                assert (response.status, response.headers["retry-after"]) == (503, "5")
                assert msgspec.json.decode(await response.read())["error"]["code"] == "paused"
