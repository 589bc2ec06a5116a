"""Messages of a trajectory, in every form that clients and upstreams give them."""

from __future__ import annotations

import json

import pytest
from tests.building import digest

from palestra.ports import StepRow
from palestra.rules.units import Moment
from palestra.web.pages.steps import Step, read_step


def read(role: str, **body: object) -> Step:
    row = StepRow("A", 7, "A-c3", role, digest("x"), Moment(0))
    return read_step(row, json.dumps({"role": role, **body}).encode(), ())


def call(arguments: object, name: str = "shell") -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_reply_says_thinks_and_calls() -> None:
    step = read(
        "assistant",
        content="I look.",
        reasoning="Hm.",
        tool_calls=[call('{"command":"ls"}')],
        finish_reason="tool_calls",
    )
    assert [(part.kind, part.shown.head) for part in step.parts] == [
        ("thought", "Hm."), ("say", "I look."), ("command", "ls"),
    ]  # fmt: skip
    assert step.cut == ""


@pytest.mark.parametrize(
    ("finish", "cut"),
    [
        ({"finish_reason": "length"}, "output limit"),
        ({"finish_reason": None}, "broke off"),
        ({"finish_reason": "content_filter"}, "filter"),
        ({"finish_reason": "stop"}, ""),
        ({}, ""),
    ],
)
def test_a_cut_reply_says_why(finish: dict[str, object], cut: str) -> None:
    """F10: null means the stream broke off; no field at all, that a client wrote the message again."""
    step = read("assistant", content="half a sen", **finish)
    assert (cut in step.cut) and bool(cut) == bool(step.cut)


def test_arguments_that_are_not_json_are_shown_as_they_came() -> None:
    """F10: a reply that was cut inside a tool call."""
    (part,) = read(
        "assistant", content=None, tool_calls=[call('{"command":"cat > f')], finish_reason="length"
    ).parts
    assert part.kind == "call" and part.bad and part.shown.head == "{&#34;command&#34;:&#34;cat &gt; f"


@pytest.mark.parametrize("command", ['{"command":["bash","-c","ls"]}', {"cmd": "bash -c ls"}])
def test_a_command_is_found_in_other_harnesses_words(command: object) -> None:
    (part,) = read("assistant", content="", tool_calls=[call(command)]).parts
    assert (part.kind, part.shown.head) == ("command", "bash -c ls")


def test_other_tools_show_their_arguments() -> None:
    (part,) = read("assistant", tool_calls=[call('{"path":"a.py","lines":[1,2]}', "edit <b>")]).parts
    assert (part.kind, part.title, part.shown.head) == ("call", "edit &lt;b&gt;", "path: a.py\nlines: [1,2]")


@pytest.mark.parametrize(
    ("tail", "told", "bad"),
    [
        ("\n[exit 0, 0.4 s]", "exit 0, 0.4 s", False),
        ("\n[exit 137, 2 min]", "exit 137, 2 min", True),
        ("", "", False),
    ],
)
def test_output_tells_how_the_command_ended(tail: str, told: str, bad: bool) -> None:
    (part,) = read("tool", content="one\ntwo" + tail).parts
    assert (part.kind, part.shown.head, part.exit, part.bad) == ("output", "one\ntwo", told, bad)


def test_content_in_parts_is_put_together() -> None:
    (part,) = read("user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).parts
    assert (part.kind, part.shown.head) == ("prompt", "a\nb")


@pytest.mark.parametrize("body", [b"", b"not json <b>", b'{"role": 3}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_message_is_shown_as_it_is(body: bytes) -> None:
    step = read_step(StepRow("A", 1, "A-c1", "assistant", digest("x"), Moment(0)), body, ())
    assert [part.kind for part in step.parts] == ["raw"] and step.note
    assert "<b>" not in step.parts[0].shown.head
