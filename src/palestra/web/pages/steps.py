"""A trajectory as read: numbered messages from the record in, steps with what was said, called and answered out."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from markupsafe import Markup

from palestra.events.masking import Secret
from palestra.ports import StepRow
from palestra.rules.units import Moment
from palestra.web.pages.source import Source
from palestra.web.pages.text import Shown, line, show

PER_PAGE = 25
LARGEST = 4 << 20
"""Bytes of a body that is read as a message; a larger one is shown as it is, cut."""
_EXIT = re.compile(r"\n?\[exit (-?\d{1,5}), ([\d.]{1,12} (?:s|min|ms))\]\s*\Z")
_CUTS = {
    "length": "The reply reached its output limit here.",
    "content_filter": "The upstream’s filter ended the reply here.",
    "cut": "The reply broke off here.",
}

Kind = Literal["say", "thought", "command", "call", "output", "prompt", "raw"]


class Part(msgspec.Struct, frozen=True):
    """One piece of a step."""

    kind: Kind
    shown: Shown
    title: Markup = Markup()
    exit: str = ""
    """How the command ended, where the harness tells."""
    bad: bool = False


class Step(msgspec.Struct, frozen=True):
    """One numbered message, as a page shows it."""

    n: int
    at: Moment
    role: str
    parts: tuple[Part, ...]
    cut: str = ""
    """Why the reply is not whole."""
    note: str = ""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    function: _Function | None = None


class _Said(msgspec.Struct):
    role: str = ""
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    refusal: Any = None
    tool_calls: list[_Call] | None = None
    finish_reason: str | msgspec.UnsetType | None = msgspec.UNSET


_SAID = msgspec.json.Decoder(_Said)
_ANY = msgspec.json.Decoder(Any)


async def read_steps(source: Source, corner: str, after: int, limit: int) -> list[Step]:
    """Steps with n > after, in order."""
    secrets = source.secrets()
    return [await _open(source, row, secrets) for row in await source.steps(corner, after, limit)]


async def _open(source: Source, row: StepRow, secrets: tuple[Secret, ...]) -> Step:
    try:
        body = await source.body(row.digest)
    except KeyError:
        return Step(row.n, row.at, row.role, (), note="This text was erased from the record.")
    return read_step(row, body, secrets)


def read_step(row: StepRow, body: bytes, secrets: tuple[Secret, ...]) -> Step:
    """One message's own bytes as a step; what can't be read as a message is shown as it is."""
    if len(body) <= LARGEST:
        try:
            said = _SAID.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return Step(row.n, row.at, row.role, tuple(_parts(row.role, said, secrets)), _cut(said))
    raw = Part("raw", show(body[:LARGEST].decode("utf-8", "replace"), secrets))
    return Step(row.n, row.at, row.role, (raw,), note="Not a message that can be read; shown as it came.")


def _parts(role: str, said: _Said, secrets: tuple[Secret, ...]) -> list[Part]:
    text = _plain(said.content) or _plain(said.refusal)
    if role in ("tool", "function"):
        found = _EXIT.search(text)
        kept = text[: found.start()] if found else text
        told = f"exit {found[1]}, {found[2]}" if found else ""
        return [Part("output", show(kept, secrets), exit=told, bad=bool(found) and found[1] != "0")]  # type: ignore[index]
    if role in ("system", "developer", "user"):
        return [Part("prompt", show(text, secrets))]
    thought = _plain(said.reasoning) or _plain(said.reasoning_content)
    parts = [Part("thought", show(thought, secrets))] if thought.strip() else []
    if text.strip():
        parts.append(Part("say", show(text, secrets)))
    return parts + [_call(call.function, secrets) for call in said.tool_calls or () if call.function]


def _call(function: _Function, secrets: tuple[Secret, ...]) -> Part:
    name = line(function.name or "call", secrets, 80)
    given = function.arguments
    written = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    try:
        arguments = _ANY.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return Part("call", show(written, secrets), name, bad=True)
    if isinstance(arguments, dict):
        command = next((arguments[key] for key in ("command", "cmd", "script") if key in arguments), None)
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = " ".join(command)
        if isinstance(command, str):
            return Part("command", show(command, secrets), name)
    return Part("call", show(_pretty(arguments), secrets), name)


def _pretty(value: Any) -> str:
    """`key: value` lines where that reads well, JSON else."""
    if isinstance(value, dict) and value:
        return "\n".join(
            f"{key}: {one if isinstance(one, str) else _json(one)}" for key, one in value.items()
        )
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _plain(content: Any) -> str:
    """The text of a message's content, whichever form it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in content
        )
    return "" if content is None else _json(content)


def _cut(said: _Said) -> str:
    """Only replies that the gateway heard itself tell how they ended; null: the stream broke off."""
    if said.finish_reason is msgspec.UNSET:
        return ""
    return _CUTS.get(said.finish_reason or "cut", "")
