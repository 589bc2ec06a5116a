"""Chat completions on paper: usage read from what upstreams really write, streams cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.arena import ask, event, usage

from palestra.gateway.protocols.chat import CHAT
from palestra.gateway.protocols.chat_answers import read_usage
from palestra.gateway.sse import Events, data_of
from palestra.rules.errors import BadInput, Broken, PalestraError, Refusal
from palestra.rules.prices import Usage


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (usage(239, 10, 15_872), Usage(fresh_input=239, cached_input=15_872, output=10)),
        ({"prompt_tokens": 5, "completion_tokens": 6}, Usage(fresh_input=5, output=6)),
        ({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 30}, Usage(fresh_input=5, output=25)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "x": []}, Usage(fresh_input=5, cached_input=4, output=1)),
        ({"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None}, Usage(fresh_input=5)),
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 7}}, Usage(fresh_input=5, cached_input=7, output=1)),
        ({}, None),
        ({"prompt_tokens": -5, "completion_tokens": 6}, None),
        ({"prompt_tokens": "5"}, None),
        ([], None),
    ],
)  # fmt: skip
def test_usage_is_read_disjoint(told: Any, read: Usage | None) -> None:
    """F07: cached tokens are inside the prompt, thinking may be only in the total; nothing is counted twice or lost."""
    assert read_usage(msgspec.json.encode(told)) == read


PIECES = [
    b": hello\n\n",
    event({"role": "assistant", "content": "caf\u00e9 "}, usage=None),
    event({"reasoning_content": "hm"}).replace(b"\n\n", b"\r\n\r\n"),
    event({"content": "\U0001f600", "odd": [1]}),
    event({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "sh", "arguments": ""}}]}),
    event({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}}]}),
    b"data: {not json\n\n",
    event({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
    event({}, "tool_calls"),
    event(usage=usage(1, 2)),
    event(usage=usage(3, 4, 5)),
    b"data:[DONE]\n",
]
STREAM = b"".join(PIECES)


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=40), st.booleans())
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int], wants: bool) -> None:
    """F07: usage, finish, message and bytes don't depend on where the chunks end; the last usage counts."""
    options = {"stream_options": {"include_usage": True}} if wants else {}
    tap = CHAT.tap(CHAT.read("", msgspec.json.encode(ask(stream=True, **options))), "text/event-stream")
    edges = [0, *sorted(set(cuts)), len(STREAM)]
    out = b"".join(tap.feed(STREAM[start:end]) for start, end in pairwise(edges))
    out += tap.close()
    reading = tap.read()
    assert out == (STREAM if wants else b"".join([*PIECES[:9], PIECES[-1]]))
    assert (reading.usage, reading.finish) == (Usage(fresh_input=3, cached_input=5, output=4), "tool_calls")
    assert reading.reply is not None
    assert json.loads(reading.reply.body) == {
        "role": "assistant",
        "content": "caf\u00e9 \U0001f600",
        "reasoning": "hm",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "sh", "arguments": '{"a": 1}'}}],
        "finish_reason": "tool_calls",
    }


@given(st.binary(max_size=300), st.integers(1, 7))
def test_any_bytes_come_out_of_the_splitter_as_they_went_in(data: bytes, size: int) -> None:
    """Events and the rest, in order, are the stream."""
    data = data.replace(b"\x00", b"\n").replace(b"\x01", b"\r\n")
    events = Events()
    parts = [
        event for start in range(0, len(data), size) for event in events.feed(data[start : start + size])
    ]
    assert b"".join(parts) + events.rest() == data


@given(st.binary(max_size=200), st.booleans())
def test_a_tap_never_fails(data: bytes, streamed: bool) -> None:
    """Whatever an upstream sends, reading it gives a reading, and an answer without usage has none."""
    tap = CHAT.tap(
        CHAT.read("", msgspec.json.encode(ask())), "text/event-stream" if streamed else "application/json"
    )
    tap.feed(b"data: " * streamed + data + b"\n\n" * streamed)
    tap.close()
    assert tap.read().usage is None


def test_data_lines_are_joined() -> None:
    """As the standard says: one space after the colon goes, several lines are one text."""
    assert data_of(b"event: x\r\ndata: {\r\ndata:}\r\n\r\n") == b"{\n}"
    assert data_of(b": ping\n\n") == b""


def test_a_json_answer_to_a_stream_request_is_read_as_json() -> None:
    """Some upstreams answer so; what was asked for doesn't decide, what came does."""
    tap = CHAT.tap(CHAT.read("", msgspec.json.encode(ask(stream=True))), "application/json; charset=utf-8")
    body = msgspec.json.encode({"choices": [], "usage": usage(1, 2)})
    assert tap.feed(body) + tap.close() == body
    assert tap.read().usage == Usage(fresh_input=1, output=2)


@pytest.mark.parametrize(
    ("error", "status", "waits"),
    [
        (Refusal("credit_spent", "x"), 402, False),
        (Refusal("call_too_dear", "x"), 400, False),
        (Refusal("credit_held", "x", retry=True), 429, True),
        (Refusal("paused", "x", retry=True), 503, True),
        (Refusal("stopping", "x", retry=True), 503, True),
        (Refusal("not_running", "x"), 403, False),
        (Refusal("finished", "x"), 403, False),
        (Refusal("unknown_model", "x"), 404, False),
        (Broken("x"), 502, True),
        (Broken("x", retry=False), 504, False),
        (BadInput("n", 1, "x"), 400, False),
        (PalestraError("x"), 500, False),
    ],
)
def test_every_no_has_its_status(error: PalestraError, status: int, waits: bool) -> None:
    """S84: 402 and 403 tell clients not to retry; what may change tells them when to."""
    reply = CHAT.refuse(error, 7)
    headers = dict(reply.headers)
    assert reply.status == status
    assert headers.get("retry-after") == ("7" if waits else None)
    assert headers.get("x-should-retry") == ("false" if status in (402, 403) else None)
    assert set(json.loads(reply.body)["error"]) == {"message", "type", "param", "code"}
