"""What passes through: the client's bytes up with four permitted changes, the upstream's bytes down as they come."""

from __future__ import annotations

import asyncio
import hashlib
import json

import msgspec
import pytest
from aiohttp import web
from tests.gateway.arena import (
    BROKEN_OFF,
    DONE,
    KEY,
    MODEL,
    NO_WAIT,
    ask,
    completion,
    event,
    noticed,
    on_loop,
    serving,
    standing,
    stream,
    usage,
    whole,
)

from palestra.rules.prices import Usage, cost

ODD = b'{ "messages":[ {"content":"caf\\u00e9 \\ud83d\\ude00 <|im_end|>\\n", "role" :"user"} ],\n "temperature":1e0,\t"model":"house-mini" }'


@on_loop
async def test_a_request_keeps_its_bytes_but_for_the_permitted_changes() -> None:
    """Model name and output cap change; every other value has the client's own bytes, in its order; the real key goes up."""
    extra = {"x-api-key": "mine", "openai-organization": "org-1"}
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url) as arena,
        arena.post(ODD, **extra) as response,
    ):
        assert response.status == 200
    sent = stand.bodies[0]
    values = msgspec.json.decode(sent, type=dict[str, msgspec.Raw])
    assert list(values) == ["messages", "temperature", "model", "max_tokens"]
    assert (
        bytes(values["messages"])
        == b'[ {"content":"caf\\u00e9 \\ud83d\\ude00 <|im_end|>\\n", "role" :"user"} ]'
    )
    assert bytes(values["temperature"]) == b"1e0"
    assert (bytes(values["model"]), bytes(values["max_tokens"])) == (b'"real-name-1"', b"4096")
    headers = stand.headers[0]
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["accept-encoding"] == "identity"
    assert not {"x-api-key", "openai-organization", "user-agent", "cookie"} & set(headers)


@pytest.mark.parametrize(
    ("fields", "caps"),
    [
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        ({"max_completion_tokens": 7, "max_tokens": 9}, {"max_completion_tokens": 7, "max_tokens": 7}),
        (
            {"max_completion_tokens": None, "max_tokens": None},
            {"max_tokens": 4096, "max_completion_tokens": None},
        ),
        ({"max_tokens": 1_000_000}, {"max_tokens": 4096}),
    ],
)
@on_loop
async def test_the_output_cap_goes_into_the_field_that_the_client_used(
    fields: dict[str, int], caps: dict[str, int]
) -> None:
    """The desk's cap is the smallest of the client's own and the model's ceiling."""
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url) as arena,
        arena.post(ask(**fields)) as response,
    ):
        assert response.status == 200
    sent = json.loads(stand.bodies[0])
    assert {name: sent[name] for name in sent if name.startswith("max_")} == caps


@on_loop
async def test_answers_reach_the_client_byte_for_byte() -> None:
    """Whole answers: same hash, spacing and odd escapes included; headers that name an organisation stay behind."""
    body = completion("a\u2028b <|endoftext|> \x00 \U0001f600", usage(3, 2))
    headers = {
        "openai-organization": "org-1",
        "x-ratelimit-remaining-tokens": "9",
        "set-cookie": "a=b",
        "x-request-id": "r",
    }
    async with (
        standing(whole(body, **headers)) as (_, url),
        serving(url) as arena,
        arena.post(ask()) as response,
    ):
        got = await response.read()
        told = {name.lower() for name in response.headers}
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-palestra-call"] == "A-c1"
    assert hashlib.sha256(got).digest() == hashlib.sha256(body).digest()
    assert not {
        name for name in told if name.startswith(("openai", "x-ratelimit", "set-cookie", "x-request"))
    }


@pytest.mark.parametrize("wants", [True, False])
@on_loop
async def test_streams_reach_the_client_byte_for_byte(wants: bool) -> None:
    """F07: the same bytes, but for the one chunk of usage that only the gateway asked for; the charge is the same."""
    body = [
        b": ping\n\n",
        event({"role": "assistant", "content": ""}, usage=None),
        event({"content": "\u00e9\u2028"}),
        b"event: x\r\ndata: "
        + msgspec.json.encode({"choices": [], "prompt_filter_results": []})
        + b"\r\n\r\n",
        event({}, "stop"),
    ]
    told = event(usage=usage(239, 10, cached=15_872))
    options = {"stream_options": {"include_usage": True}} if wants else {}
    cut_oddly = b"".join([*body, told, DONE])
    pieces = [cut_oddly[start : start + 7] for start in range(0, len(cut_oddly), 7)]

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        assert json.loads(asked)["stream_options"] == {"include_usage": True}
        return await stream(request, pieces)

    async with standing(answer) as (_, url), serving(url) as arena:
        async with arena.post(ask(stream=True, **options)) as response:
            got = await response.read()
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        await arena.settled()
        (charge,) = arena.charges
    expected = b"".join([*body, *([told] if wants else []), DONE])
    assert hashlib.sha256(got).digest() == hashlib.sha256(expected).digest()
    assert charge.usage == Usage(fresh_input=239, cached_input=15_872, output=10)
    assert (charge.charge, charge.finish, charge.estimated) == (
        cost(MODEL.price, charge.usage),
        "stop",
        False,
    )


@on_loop
async def test_the_same_usage_costs_the_same_streamed_and_whole() -> None:
    """F07: 15,872 of 16,111 input tokens cached, the usage in a last chunk that has a choice, or in a whole answer."""
    told = usage(239, 10, cached=15_872)

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        if json.loads(asked).get("stream"):
            return await stream(request, [event({"content": "hi"}), event({}, "stop", usage=told), DONE])
        return web.Response(body=completion("hi", told), content_type="application/json")

    async with standing(answer) as (_, url), serving(url) as arena:
        for streamed in (True, False):
            async with arena.post(ask(stream=streamed)) as response:
                assert b"15872" in await response.read()
        await arena.settled(2)
        one, other = arena.charges
    assert one.charge == other.charge > 0
    assert one.usage == other.usage


@on_loop
async def test_the_first_chunk_is_forwarded_before_the_upstream_sends_its_second() -> None:
    """The upstream sends its second chunk only once the client has the first."""
    first_came = asyncio.Event()
    first, second = event({"content": "one"}), event({"content": "two"}, "stop", usage=usage(1, 2))

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(first)
        await first_came.wait()
        await response.write(second)
        return response

    async with (
        standing(answer) as (_, url),
        serving(url) as arena,
        arena.post(ask(stream=True)) as response,
    ):
        assert await response.content.readexactly(len(first)) == first
        first_came.set()
        assert await response.read() == second


@on_loop
async def test_a_cut_tool_call_is_carried_through_as_cut() -> None:
    """F10: the upstream ends with "length" in the middle of the arguments: the client, the ledger and the step all say so."""
    call = {"index": 0, "id": "call_9", "type": "function", "function": {"name": "shell", "arguments": ""}}
    pieces = [
        event({"role": "assistant", "content": None}),
        event({"tool_calls": [call]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": '{"command": "rm -'}}]}),
        event({}, "length"),
        event(usage=usage(5, 5)),
        DONE,
    ]

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        return await stream(request, pieces)

    async with standing(answer) as (_, url), serving(url) as arena:
        async with arena.post(ask(stream=True, stream_options={"include_usage": True})) as response:
            assert await response.read() == b"".join(pieces)
        await arena.settled()
        (charge,) = arena.charges
        step = json.loads(arena.record.open(arena.steps()[-1].digest))
    assert charge.finish == "length"
    assert step["finish_reason"] == "length"
    assert step["tool_calls"][0]["function"] == {"name": "shell", "arguments": '{"command": "rm -'}


@pytest.mark.parametrize("trouble", ["429", "500", "529"])
@on_loop
async def test_a_busy_upstream_is_asked_again_and_the_client_never_knows(trouble: str) -> None:
    """Two bad answers, then a good one: one charge; both times the same upstream and the same body."""
    answers = [
        web.Response(status=int(trouble), headers={"retry-after": "0"}),
        web.Response(status=int(trouble)),
        web.Response(body=completion(told=usage(1, 1)), content_type="application/json"),
    ]

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        return answers.pop(0)

    async with standing(answer) as (stand, url), serving(url) as arena:
        async with arena.post(ask()) as response:
            assert response.status == 200
        await arena.settled()
        assert len(arena.charges) == 1 and not arena.releases
    assert len(stand.bodies) == 3 and len(set(stand.bodies)) == 1


@on_loop
async def test_an_upstream_that_stays_busy_costs_nothing_and_raises_one_alarm() -> None:
    """429 for good: the client gets a 429 with Retry-After and without the upstream's words; the alarm ends with the trouble."""
    text = b'{"error": {"message": "limit reached in organization org-1"}}'
    async with standing(whole(text, 429)) as (stand, url), serving(url) as arena:
        for _ in range(2):
            async with arena.post(ask()) as response:
                got = await response.read()
                assert (response.status, response.headers["retry-after"]) == (429, "5")
                assert b"org-1" not in got and b"upstream_busy" in got
        await arena.settled(2)
        assert (arena.account.spent, arena.account.held, len(arena.releases)) == (0, 0, 2)
        assert len(stand.bodies) == 2 * NO_WAIT.patience.tries
        assert list(arena.desk.book.state.alarms) == ["upstream:upstream"]
        stand.answer = whole(completion(told=usage(1, 1)))
        async with arena.post(ask()) as response:
            assert response.status == 200
        await arena.settled(3)
        assert not arena.desk.book.state.alarms


@pytest.mark.parametrize("status", [401, 402, 403, 302])
@on_loop
async def test_a_no_to_the_arenas_own_key_is_not_the_entrants_business(status: int) -> None:
    """The upstream's words may hold part of the real key, and its 402 isn't the corner's: an alarm, and 503 for the client."""
    text = f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}'.encode()
    async with standing(whole(text, status)) as (_, url), serving(url) as arena:
        async with arena.post(ask()) as response:
            assert response.status == 503
            assert KEY.encode() not in await response.read()
        await arena.settled()
        assert arena.account.spent == 0
        assert str(status) in arena.desk.book.state.alarms["upstream:upstream"]


@on_loop
async def test_an_upstreams_own_complaint_reaches_the_client_as_it_is() -> None:
    """A 400, such as a context that is too long, is the client's to deal with; it costs nothing."""
    text = b'{ "error": {"code": "context_length_exceeded"} }'
    async with standing(whole(text, 400)) as (stand, url), serving(url) as arena:
        async with arena.post(ask()) as response:
            assert (response.status, await response.read()) == (400, text)
        await arena.settled()
        (release,) = arena.releases
        assert release.status == 400 and len(stand.bodies) == 1


@on_loop
async def test_an_unreachable_upstream_is_a_502_that_costs_nothing() -> None:
    """Nobody listens there."""
    async with serving("http://127.0.0.1:1/v1") as arena:
        async with arena.post(ask()) as response:
            assert (response.status, response.headers["retry-after"]) == (502, "5")
        await arena.settled()
        assert arena.account.spent == 0 and "upstream:upstream" in arena.desk.book.state.alarms


@pytest.mark.parametrize("told", [True, False])
@on_loop
async def test_a_stream_that_breaks_off_breaks_off_for_the_client_too(told: bool) -> None:
    """After the first byte nothing is tried again: charged by the usage seen so far, else at the hold; the step says cut."""
    pieces = [event({"content": "half a wo"}, usage=usage(1, 2) if told else None)]

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(pieces[0])
        assert request.transport is not None
        request.transport.close()
        return response

    async with standing(answer) as (stand, url), serving(url) as arena:
        async with arena.post(ask(stream=True, stream_options={"include_usage": True})) as response:
            with pytest.raises(Exception, match=BROKEN_OFF):
                await response.read()
        await arena.settled()
        (charge,) = arena.charges
        step = json.loads(arena.record.open(arena.steps()[-1].digest))
    assert (charge.finish, charge.estimated, len(stand.bodies)) == ("cut", not told, 1)
    assert (step["content"], step["finish_reason"]) == ("half a wo", None)


@on_loop
async def test_hanging_up_is_not_free() -> None:
    """F05: the client reads 5 chunks of a 400-token answer and closes: one charge, equal to the upstream's own usage."""
    go_on = asyncio.Event()

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(400):
            await response.write(event({"content": f"w{number} "}))
            if number == 4:
                await go_on.wait()
        await response.write(event({}, "stop") + event(usage=usage(50, 400)) + DONE)
        return response

    async with standing(answer) as (_, url), serving(url) as arena:
        async with arena.post(ask(stream=True)) as response:
            await response.content.readuntil(b"w4 ")
        await noticed()
        go_on.set()
        await arena.settled()
        (charge,) = arena.charges
        step = json.loads(arena.record.open(arena.steps()[-1].digest))
    assert charge.hung_up and not charge.estimated
    assert charge.charge == cost(MODEL.price, Usage(fresh_input=50, output=400)) == arena.account.spent
    assert step["content"].endswith("w399 ")


@on_loop
async def test_hanging_up_while_the_upstream_thinks_is_not_free_either() -> None:
    """F05: nothing was sent to the client yet; the answer is read to its end all the same."""
    asked_for, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request, asked: bytes) -> web.StreamResponse:
        asked_for.set()
        await go_on.wait()
        return web.Response(body=completion("thought", usage(5, 6)), content_type="application/json")

    async with standing(answer) as (_, url), serving(url) as arena:
        waiting = asyncio.create_task(arena.post(ask()).__aenter__())
        await asked_for.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await noticed()
        go_on.set()
        await arena.settled()
        (charge,) = arena.charges
    assert charge.charge == cost(MODEL.price, Usage(fresh_input=5, output=6)) and charge.hung_up
