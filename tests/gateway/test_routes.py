"""One choke point: what isn't allowed is refused before the desk or the upstream hears of it. F06, F08."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.gateway.arena import DONE, NO_WAIT, ask, completion, on_loop, serving, standing, usage, whole

from palestra.rules.units import DOLLAR, Bytes

DENIED = [
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1beta/models/gemini:generateContent"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/chat/completions/"),
    ("POST", "//v1/chat/completions"),
    ("POST", "/V1/chat/completions"),
    ("POST", "/openai/v1/chat/completions"),
    ("GET", "/v1/chat/completions"),
    ("DELETE", "/v1/chat/completions"),
    ("POST", "/v1/models"),
    ("POST", "/passthrough/v1/chat/completions"),
    ("GET", "/"),
]


@pytest.mark.parametrize("credit", [DOLLAR, 1])
@on_loop
async def test_there_is_no_side_door(credit: int) -> None:
    """F08: every other route is denied alike, with credit and without; header names change nothing."""
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url, credit=credit) as arena,
    ):
        for method, path in DENIED:
            headers = {"authorization": "Bearer A", "x-user": "B", "openai-user": "B"}
            body = msgspec.json.encode(ask())
            async with arena.client.request(method, arena.url + path, data=body, headers=headers) as response:
                said = msgspec.json.decode(await response.read())
                assert (response.status, said["error"]["code"]) == (404, "unknown_url"), path
        assert not stand.bodies
        assert arena.account.spent == arena.account.held == 0


@on_loop
async def test_a_model_without_a_price_is_refused_before_the_upstream_is_touched() -> None:
    """F06: no price, no call; the refusal names the model and is on the record once."""
    async with standing(whole(completion(told=usage(1, 1)))) as (stand, url), serving(url) as arena:
        for model in ("gpt-unpriced", "gpt-unpriced", "real-name-1"):
            async with arena.post({**ask(), "model": model}) as response:
                said = msgspec.json.decode(await response.read())
                assert (response.status, said["error"]["code"]) == (404, "model_not_found")
                assert f"no price for '{model}'" in said["error"]["message"]
        assert not stand.bodies
        assert [code for _, code, _ in arena.desk.book.state.refused] == ["unknown_model"]


@on_loop
async def test_models_are_listed_with_their_prices() -> None:
    """GET /v1/models: just those of the competition."""
    async with (
        serving("http://127.0.0.1:1/v1") as arena,
        arena.client.get(arena.url + "/v1/models", headers={"authorization": "Bearer A"}) as response,
    ):
        assert response.status == 200
        (model,) = (await response.json())["data"]
        assert model["id"] == "house-mini"
        assert model["nano_dollars_per_million_tokens"]["output"] == 4 * DOLLAR
        assert "real-name-1" not in await response.text()


IMAGE = {
    "role": "user",
    "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}],
}
BAD: list[tuple[bytes | dict[str, Any], str | None, str]] = [
    (b"", "body", "invalid_value"),
    (b"[]", "body", "invalid_value"),
    (b'{"model": "house-mini", "messages": [', "body", "invalid_value"),
    (b'{"model": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "body", "invalid_value"),
    ({"messages": [{"role": "user", "content": "x"}]}, "model", "invalid_value"),
    ({"model": "house-mini"}, "messages", "invalid_value"),
    ({"model": "house-mini", "messages": []}, "messages", "invalid_value"),
    ({"model": "house-mini", "messages": [{"content": "x"}]}, "messages", "invalid_value"),
    (ask(max_tokens=0), "max_tokens", "invalid_value"),
    (ask(max_tokens="many"), "max_tokens", "invalid_value"),
    (ask(stream="yes"), "stream", "invalid_value"),
    ({**ask(), "messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content", "invalid_value"),
    ({**ask(), "messages": [IMAGE]}, "messages[0].content", "field_not_allowed"),
    (
        {**ask(), "messages": [{"role": "assistant", "audio": {"id": "a"}}]},
        "messages[0].audio",
        "field_not_allowed",
    ),
    (ask(n=2), "n", "field_not_allowed"),
    (ask(best_of=2), "best_of", "field_not_allowed"),
    (ask(service_tier="priority"), "service_tier", "field_not_allowed"),
    (ask(modalities=["text", "audio"]), "modalities", "field_not_allowed"),
    (ask(prediction={"type": "content", "content": "x"}), "prediction", "field_not_allowed"),
    (ask(web_search_options={}), "web_search_options", "field_not_allowed"),
    (ask(tools=[{"type": "web_search"}]), "tools[0]", "field_not_allowed"),
    (ask(models=["dearer"]), "models", "field_not_allowed"),
    (ask(api_base="http://elsewhere"), "api_base", "field_not_allowed"),
    (ask(chat_template="{% for i in range(100000) %}x{% endfor %}"), "chat_template", "field_not_allowed"),
]


@on_loop
async def test_what_cant_be_read_or_priced_is_refused_by_name() -> None:
    """Each complaint names the field; nothing is held, nothing goes up."""
    async with standing(whole(completion(told=usage(1, 1)))) as (stand, url), serving(url) as arena:
        for body, field, code in BAD:
            async with arena.post(body) as response:
                error = msgspec.json.decode(await response.read())["error"]
                assert (response.status, error["param"], error["code"]) == (400, field, code), body
                assert len(error["message"]) < 1_000
        assert not stand.bodies and not arena.charges and not arena.releases


@on_loop
async def test_what_clients_commonly_send_is_let_through() -> None:
    """Nulls, text parts, tools, tool results and reasoning settings of known clients."""
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "go", "name": "sam"},
        {
            "role": "assistant", "content": None, "audio": None, "refusal": None, "function_call": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "shell", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]  # fmt: skip
    fields = {
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
        "tool_choice": "auto", "temperature": 0.5, "top_p": None, "n": 1, "stop": ["x"], "seed": 1, "user": "u",
        "stream": False, "reasoning_effort": "low", "parallel_tool_calls": False, "service_tier": "auto",
        "response_format": {"type": "text"}, "store": False, "metadata": {"a": "b"},
    }  # fmt: skip
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url) as arena,
        arena.post({"model": "house-mini", "messages": messages, **fields}) as response,
    ):
        assert response.status == 200
        sent = msgspec.json.decode(stand.bodies[0])
        assert sent == {"model": "real-name-1", "messages": messages, **fields, "max_tokens": 4096}


@on_loop
async def test_of_a_field_given_twice_the_upstream_sees_what_the_gateway_read() -> None:
    """A second `max_tokens` can't slip past the hold."""
    body = b'{"model":"house-mini","max_tokens":5,"messages":[{"role":"user","content":"x"}],"max_tokens":9}'
    async with (
        standing(whole(completion(told=usage(1, 1)))) as (stand, url),
        serving(url) as arena,
        arena.post(body) as response,
    ):
        assert response.status == 200
        assert stand.bodies[0].count(b"max_tokens") == 1
        assert msgspec.json.decode(stand.bodies[0])["max_tokens"] == 9
        assert response.headers["x-palestra-output-cap"] == "9"


@pytest.mark.parametrize("chunked", [True, False])
@on_loop
async def test_a_body_that_is_too_long_is_refused(chunked: bool) -> None:
    """Told by its length or found out while reading; nothing goes up."""
    limits = msgspec.structs.replace(NO_WAIT, body=Bytes(100_000))
    body = msgspec.json.encode(ask("x" * 100_000))

    async def pieces() -> Any:
        for start in range(0, len(body), 50_000):
            yield body[start : start + 50_000]

    async with standing(whole(completion())) as (stand, url), serving(url, limits=limits) as arena:
        headers = {"authorization": "Bearer A"}
        data = pieces() if chunked else body
        async with arena.client.post(
            arena.url + "/v1/chat/completions", data=data, headers=headers
        ) as response:
            assert response.status == 413
            assert b"97.7 KiB" in await response.read()
        assert not stand.bodies
        async with arena.post(ask("x" * 90_000)) as response:
            assert response.status == 200


@on_loop
async def test_calls_at_once_are_limited() -> None:
    """A flood is told to come back."""
    limits = msgspec.structs.replace(NO_WAIT, calls_at_once=0)
    async with standing(whole(DONE)) as (stand, url), serving(url, limits=limits) as arena:
        async with arena.post(ask()) as response:
            assert (response.status, response.headers["retry-after"]) == (429, "5")
            assert b"too_many_calls" in await response.read()
        assert not stand.bodies
