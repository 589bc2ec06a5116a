"""What a request to the model server may hold, and how waiting requests become batches. No model is needed for either."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import pytest

from palestra_kit.batching import Batches
from palestra_kit.chat import Chat, Encoded
from palestra_kit.completions import Completion, read_completion
from palestra_kit.generate import Answer, Ask, Sampling
from palestra_kit.rows import Message
from palestra_kit.wire import HttpError, Request, Response, converse

HELLO = [{"role": "user", "content": "hello"}]


class Letters:
    """A stand-in for a tokenizer: one token a letter."""

    context = 50

    def encode(self, messages: Sequence[Message], *, answer_next: bool) -> Encoded:
        ids = [ord(letter) for message in messages for letter in message.content]
        return Encoded(ids, [False] * len(ids))


def read(**fields: object) -> Completion:
    body = json.dumps({"messages": HELLO, **fields}).encode()
    return read_completion(body, cast(Chat, Letters()), ["base", "sft"], "base")


def test_all_settings_arrive() -> None:
    got = read(
        model="sft",
        temperature=0.7,
        top_p=0.9,
        seed=5,
        max_tokens=9,
        stop=["x", "\n"],
        repetition_penalty=1.3,
        stream=False,
    )
    assert got.model == "sft"
    assert got.sampling == Sampling(0.7, 0.9, 1.3)
    assert (got.ask.max_tokens, got.ask.stop, got.ask.seed) == (9, ("x", "\n"), 5)


def test_defaults_are_greedy_and_an_unseeded_draw_is_new_each_time() -> None:
    assert read().sampling == Sampling(0.0, 1.0, 1.0)
    assert read().model == "base"
    assert read().ask.seed != read().ask.seed
    assert read(stop="x").ask.stop == ("x",)


@pytest.mark.parametrize(
    ("fields", "status", "field", "sentence"),
    [
        ({"logit_bias": {}}, 400, "logit_bias", "'logit_bias' is not known here; known are: model, messages"),
        ({"stream": True}, 400, "stream", "answers come whole"),
        ({"model": "gpt"}, 404, "model", "model 'gpt' is not served; served are: base, sft"),
        ({"model": ["base"]}, 404, "model", "is not served"),
        ({"temperature": "0.7"}, 400, "temperature", "temperature is '0.7'; it must be a number from 0 to 2"),
        ({"temperature": True}, 400, "temperature", "temperature is True"),
        ({"temperature": float("nan")}, 400, "temperature", "temperature is nan"),
        ({"top_p": 0}, 400, "top_p", "top_p is 0"),
        ({"repetition_penalty": 5}, 400, "repetition_penalty", "it must be a number from 0.5 to 2"),
        ({"max_tokens": 0}, 400, "max_tokens", "max_tokens is 0; it must be a whole number from 1 to 4096"),
        ({"max_tokens": 1.5}, 400, "max_tokens", "max_tokens is 1.5"),
        ({"seed": "a"}, 400, "seed", "seed is 'a'"),
        ({"stop": [""]}, 400, "stop", "it must be up to 4 texts of 1 to 64 characters"),
        ({"stop": ["a"] * 5}, 400, "stop", "it must be up to 4 texts"),
        ({"messages": []}, 400, "messages", "messages must be a list with at least one message"),
        ({"messages": [{"role": "user"}]}, 400, "messages", "must have exactly the fields role and content"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, 400, "messages", "it must be 'user'"),
        (
            {"messages": [{"role": "user", "content": "x" * 50}]},
            400,
            "messages",
            "context of 50 leaves no room",
        ),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], status: int, field: str, sentence: str) -> None:
    with pytest.raises(HttpError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.field) == (status, field)
    assert sentence in caught.value.message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(HttpError, match="body"):
        read_completion(body, cast(Chat, Letters()), ["base"], "base")


def completion(model: str, size: int = 4, temperature: float = 0.0) -> Completion:
    return Completion(model, Ask([1] * size, 4), Sampling(temperature))


async def answer_all(
    completions: list[Completion], most_tokens: int = 1_000
) -> tuple[list[list[int]], list[object]]:
    """Ask for all at once; gives the sizes of the prompts of each batch, and the answers."""
    batches: list[list[int]] = []

    def generate(model: str, asks: Sequence[Ask], sampling: Sampling) -> list[Answer]:
        batches.append([len(ask.ids) for ask in asks])
        if model == "broken":
            raise RuntimeError("out of memory")
        return [Answer(f"{model} {len(ask.ids)}", 1, "stop") for ask in asks]

    made = Batches(generate, most_tokens)
    work = asyncio.create_task(made.work())
    answers = await asyncio.gather(*(made.answer(one) for one in completions), return_exceptions=True)
    work.cancel()
    return batches, list(answers)


def test_what_waits_together_and_agrees_is_one_batch() -> None:
    asked = [
        completion("base", 1),
        completion("sft", 2),
        completion("base", 3, temperature=1.0),
        completion("base", 4),
    ]
    batches, answers = asyncio.run(answer_all(asked))
    assert batches == [[1, 4], [2], [3]]
    assert [cast(Answer, one).text for one in answers] == ["base 1", "sft 2", "base 3", "base 4"]


def test_a_batch_stays_below_the_cache_and_a_giant_goes_alone() -> None:
    batches, answers = asyncio.run(answer_all([completion("base", size) for size in (4, 4, 4, 200, 4)], 20))
    assert batches == [[4, 4], [4, 4], [200]]
    assert len(answers) == 5


def test_an_error_goes_to_its_own_batch_only() -> None:
    _, answers = asyncio.run(answer_all([completion("broken"), completion("base")]))
    assert str(answers[0]) == "out of memory"
    assert cast(Answer, answers[1]).text == "base 4"


def talk(raw: bytes) -> bytes:
    """What a server that echoes paths says to these bytes on one connection."""

    async def echo(request: Request) -> Response:
        if request.path == "/no":
            raise HttpError(HTTPStatus.NOT_FOUND, "no such path")
        return Response(HTTPStatus.OK, {"path": request.path, "body": request.body.decode()})

    class Written(bytearray):
        def write(self, data: bytes) -> None:
            self.extend(data)

        async def drain(self) -> None:
            pass

        def close(self) -> None:
            pass

    async def run() -> bytes:
        reader, written = asyncio.StreamReader(), Written()
        reader.feed_data(raw)
        reader.feed_eof()
        await converse(reader, cast(asyncio.StreamWriter, written), echo)
        return bytes(written)

    return asyncio.run(run())


def test_one_connection_carries_many_requests() -> None:
    said = talk(
        b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /no HTTP/1.1\r\n\r\nGET /b?x=1 HTTP/1.1\r\nConnection: close\r\n\r\nGET /c HTTP/1.1\r\n\r\n"
    )
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert b'{"path": "/a", "body": "hi"}' in said
    assert b"404 Not Found" in said
    assert b'"/b"' in said
    assert b"/c" not in said


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", b"431"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"431"),
    ],
)
def test_broken_requests_get_an_answer_and_the_connection_closes(raw: bytes, status: bytes) -> None:
    said = talk(raw)
    assert said.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close" in said


@pytest.mark.parametrize("raw", [b"", b"GET / HTTP", b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nhi"])
def test_a_client_that_leaves_midway_gets_nothing(raw: bytes) -> None:
    assert talk(raw) == b""
