"""The flight recorder: each message becomes one step, once, whatever clients do to their context, and across restarts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.arena import ask, completion, on_loop, serving, standing, usage, whole

from palestra.gateway.protocols.chat import CHAT
from palestra.gateway.protocols.chat_answers import identify
from palestra.gateway.protocols.shape import Message
from palestra.gateway.transcript import Exchange, Recorder, Transcript, restore_request
from palestra.journal.memory import MemoryRecord
from palestra.ports import StepRow
from palestra.rules.units import Digest
from palestra.runtime.clock import VirtualClock


class Shelf:
    """A record that is durable at once."""

    def __init__(self) -> None:
        self.record = MemoryRecord()

    def keep(self, data: bytes) -> Digest:
        return self.record.put(data)

    def keep_steps(self, steps: Any) -> None:
        self.record.keep([], steps)

    def rows(self) -> list[StepRow]:
        return self.record.steps("A", 0, 100_000)

    def texts(self) -> list[str]:
        return [json.loads(self.record.open(row.digest))["content"] for row in self.rows()]


def say(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def exchange(said: list[dict[str, Any]], reply: dict[str, Any] | None, call: str = "A-c1") -> Exchange:
    asked = CHAT.read("", msgspec.json.encode({"model": "m", "messages": said}))
    answered = b""
    heard = None
    if reply is not None:
        tap = CHAT.tap(asked, "application/json")
        answered = msgspec.json.encode({"choices": [{"message": reply, "finish_reason": "stop"}]})
        tap.feed(answered)
        tap.close()
        heard = tap.read().reply
    return Exchange(
        corner="A", call=call, asked=asked.fields, said_in=CHAT.said_in, messages=CHAT.messages(asked),
        answered=answered, reply=heard,
    )  # fmt: skip


def test_a_conversation_that_grows_is_numbered_by_what_is_new() -> None:
    """Each call brings all of it again; only the new messages and the reply get numbers."""
    shelf = Shelf()
    recorder = Recorder(shelf, VirtualClock(7))
    said = [say("system", "s"), say("user", "u")]
    first = recorder(exchange(said, say("assistant", "a1")))
    said += [say("assistant", "a1"), say("user", "go on")]
    second = recorder(exchange(said, say("assistant", "a2"), "A-c2"))
    said += [say("assistant", "a2"), say("user", "go on")]
    third = recorder(exchange(said, say("assistant", "a2"), "A-c3"))
    assert [(one.first_step, one.steps) for one in (first, second, third)] == [(1, 3), (4, 2), (6, 2)]
    assert shelf.texts() == ["s", "u", "a1", "go on", "a2", "go on", "a2"]
    assert [row.call for row in shelf.rows()] == ["A-c1"] * 3 + ["A-c2"] * 2 + ["A-c3"] * 2
    assert [row.role for row in shelf.rows()][:4] == ["system", "user", "assistant", "user"]


def test_how_a_client_spells_a_message_doesnt_make_it_new() -> None:
    """Null or empty, parts or text, other spaces in a call's arguments, extra fields of the client's own."""
    call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"b": 1, "a": "x"}'}}
    shelf = Shelf()
    recorder = Recorder(shelf, VirtualClock())
    recorder(exchange([say("user", "u")], say("assistant", None, tool_calls=[call], refusal=None)))
    again = {**call, "function": {"name": "shell", "arguments": '{"a":"x","b":1}'}}
    said = [
        say("user", [{"type": "text", "text": "u"}]),  # type: ignore[arg-type]
        say("assistant", "", tool_calls=[again], provider_specific_fields={"x": 1}),
        say("tool", "out", tool_call_id="c1"),
    ]
    recorded = recorder(exchange(said, say("assistant", "done")))
    assert (recorded.first_step, recorded.steps) == (3, 2)
    assert [row.role for row in shelf.rows()] == ["user", "assistant", "tool", "assistant"]


def test_two_conversations_that_alternate_and_a_context_that_is_rewritten() -> None:
    """A sub-agent beside the main loop; then old tool output is dropped from the context: only what is new is numbered."""
    shelf = Shelf()
    recorder = Recorder(shelf, VirtualClock())
    main = [say("system", "main"), say("user", "task")]
    sub = [say("system", "sub"), say("user", "task")]
    for turn in range(3):
        for said, name in ((main, "m"), (sub, "s")):
            recorder(exchange(said, say("assistant", f"{name}{turn}")))
            said += [
                say("assistant", f"{name}{turn}"),
                say("tool", f"{name} out {turn}", tool_call_id=f"{name}{turn}"),
            ]
    count = len(shelf.rows())
    shortened = [main[0], main[1], say("tool", "[old output removed]", tool_call_id="m0"), *main[4:]]
    recorded = recorder(exchange(shortened, say("assistant", "m3")))
    assert shelf.texts()[count:] == ["m out 2", "[old output removed]", "m3"] or shelf.texts()[count:] == [
        "[old output removed]", "m out 2", "m3",
    ]  # fmt: skip
    assert recorded.steps == 3
    assert shelf.texts().count("task") == 1  # told to both in the same words: one message on the record


def test_a_restart_numbers_nothing_twice() -> None:
    """A recorder made anew from the rows goes on where the old one was."""
    shelf = Shelf()
    said = [say("system", "s"), say("user", "u")]
    Recorder(shelf, VirtualClock())(exchange(said, say("assistant", "a1")))
    reborn = Recorder(shelf, VirtualClock())
    reborn.reload(shelf.rows(), shelf.record.open)
    said += [say("assistant", "a1"), say("user", "go on")]
    recorded = reborn(exchange(said, say("assistant", "a2")))
    assert (recorded.first_step, recorded.steps) == (4, 2)
    assert shelf.texts() == ["s", "u", "a1", "go on", "a2"]


def test_an_erased_body_keeps_its_number() -> None:
    """After `BlobErased` its text is gone, and its number isn't given out again."""
    shelf = Shelf()
    Recorder(shelf, VirtualClock())(exchange([say("user", "secret")], say("assistant", "a")))
    shelf.record.erase(shelf.rows()[1].digest)
    reborn = Recorder(shelf, VirtualClock())
    reborn.reload(shelf.rows(), shelf.record.open)
    assert reborn(exchange([say("user", "new")], None)).first_step == 3


def test_a_request_is_kept_by_its_messages_and_comes_back_exact() -> None:
    """Conversations are kept as deltas: a second call keeps no message again, and both requests can be read back."""
    shelf = Shelf()
    recorder = Recorder(shelf, VirtualClock())
    body = b'{"model":"m","messages":[{"content" : "caf\\u00e9", "role":"user"}],"temperature":1e0}'
    asked = CHAT.read("", body)
    recorded = recorder(
        Exchange(
            corner="A",
            call="A-c1",
            asked=asked.fields,
            said_in="messages",
            messages=CHAT.messages(asked),
            answered=b"{}",
            reply=None,
        )
    )
    assert recorded.asked_body is not None
    kept = shelf.record.open(recorded.asked_body)
    assert b"caf" not in kept
    assert restore_request(kept, "messages", shelf.record.open) == body


def test_a_cut_reply_is_kept_as_cut() -> None:
    """F10: the step holds the finish reason, and a call's arguments as far as they came."""
    tap = CHAT.tap(CHAT.read("", msgspec.json.encode(ask())), "text/event-stream")
    call = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": '{"command": "rm'}}
    tap.feed(
        b"data: "
        + msgspec.json.encode({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        + b"\n\n"
    )
    tap.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n')
    tap.close()
    reply = tap.read().reply
    assert reply is not None
    told = json.loads(reply.body)
    assert (told["finish_reason"], told["tool_calls"][0]["function"]["arguments"]) == (
        "length",
        '{"command": "rm',
    )


TEXTS = st.sampled_from(["", "a", "b", "go on", "ok"])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), TEXTS, TEXTS), max_size=12))
def test_each_spoken_message_is_numbered_once(turns: list[tuple[bool, int, str, str]]) -> None:
    """Over any mix of conversations and restarts, every reply gets one step, and no message more than it was said."""
    shelf = Shelf()
    recorder = Recorder(shelf, VirtualClock())
    talks: dict[int, list[dict[str, Any]]] = {}
    most: dict[bytes, int] = {}
    replies: dict[bytes, int] = {}
    for restart, which, told, answer in turns:
        said = talks.setdefault(which, [say("system", f"talk {which}")])
        said.append(say("user", told))
        reply = say("assistant", answer)
        recorder(exchange(said, reply))
        said.append(reply)
        ident = identify(msgspec.json.encode(reply))
        replies[ident] = replies.get(ident, 0) + 1
        here: dict[bytes, int] = {}
        for message in said:
            key = identify(msgspec.json.encode(message))
            here[key] = here.get(key, 0) + 1
            most[key] = max(most.get(key, 0), here[key])
        if restart:
            recorder = Recorder(shelf, VirtualClock())
            recorder.reload(shelf.rows(), shelf.record.open)
    rows = shelf.rows()
    assert [row.n for row in rows] == list(range(1, len(rows) + 1))
    found: dict[bytes, int] = {}
    for row in rows:
        key = identify(shelf.record.open(row.digest))
        found[key] = found.get(key, 0) + 1
    for key, times in found.items():
        assert times == (replies[key] if key in replies else most[key])


def test_a_transcript_counts_equal_messages() -> None:
    """Said three times means three steps."""
    transcript, ok = Transcript(), Message("user", b"ok", b"ok")
    assert transcript.read([ok, ok], None) == [ok, ok]
    assert transcript.read([ok, ok, ok], None) == [ok]
    assert transcript.read([ok], None) == []


@on_loop
async def test_a_served_call_names_its_bodies_and_steps() -> None:
    """Through the gateway: the charge names what the record holds, byte for byte."""
    body = completion("hi", usage(3, 1))
    async with standing(whole(body)) as (_, url), serving(url) as arena:
        for text in ("one", "two"):
            async with arena.post(ask(text)) as response:
                assert response.status == 200
        await arena.settled(2)
        first, second = arena.charges
        assert (first.first_step, first.steps, second.first_step, second.steps) == (1, 2, 3, 2)
        assert first.answered_body is not None and first.asked_body is not None
        assert arena.record.open(first.answered_body) == body
        kept = arena.record.open(first.asked_body)
        assert msgspec.json.decode(restore_request(kept, "messages", arena.record.open)) == ask("one")
        assert [(row.n, row.role, row.call) for row in arena.steps()] == [
            (1, "user", "A-c1"), (2, "assistant", "A-c1"), (3, "user", "A-c2"), (4, "assistant", "A-c2"),
        ]  # fmt: skip
