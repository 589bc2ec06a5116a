"""Answers of chat completions: an upstream's bytes, streamed or not, into usage, finish reason and the assistant's message."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Raw

from palestra.gateway.protocols.shape import Message, Reading
from palestra.gateway.sse import Events, data_of
from palestra.rules.prices import Usage

_NULL = Raw(b"null")


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Raw = _NULL


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(msgspec.Struct):
    text: str = ""
    refusal: str = ""


class _Said(msgspec.Struct):
    """A whole message, or one delta of it."""

    role: str | None = None
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    tool_call_id: str | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or part.refusal for part in self.content)
        return self.content or self.refusal or ""


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[Raw] | None = None
    usage: Raw = _NULL


_CHUNK = msgspec.json.Decoder(_Chunk)
_CHOICE = msgspec.json.Decoder(_Choice)
_USAGE = msgspec.json.Decoder(_Usage)
_SAID = msgspec.json.Decoder(_Said)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ChatTap:
    """Listens to one answer; for a client that didn't ask for usage, drops the chunk that holds nothing else."""

    def __init__(self, *, streamed: bool, hide_usage: bool) -> None:
        self._streamed = streamed
        self._hide = hide_usage and streamed
        self._events = Events()
        self._whole: list[bytes] = []
        self._usage: Usage | None = None
        self._said = _Spoken()

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that may go on. Where nothing can be dropped, that is the chunk itself, at once."""
        if not self._streamed:
            self._whole.append(chunk)
            return chunk
        kept = [event for event in self._events.feed(chunk) if not self._take(event)]
        return b"".join(kept) if self._hide else chunk

    def close(self) -> bytes:
        """An unfinished last event is read and passed on too: some upstreams leave out the last blank line."""
        if not self._streamed:
            self._read_chunk(b"".join(self._whole))
            return b""
        rest = self._events.rest()
        dropped = self._take(rest)
        return rest if self._hide and not dropped else b""

    def read(self) -> Reading:
        """What was heard."""
        return Reading(usage=self._usage, finish=self._said.finish, reply=self._said.message())

    def _take(self, event: bytes) -> bool:
        """Read one event; true when it is the usage that only we asked for."""
        data = data_of(event)
        if not data or data == b"[DONE]":
            return False
        return self._read_chunk(data) and self._hide

    def _read_chunk(self, data: bytes) -> bool:
        """Read one chunk or a whole answer; true when it holds usage and no choice. The last usage counts (F07)."""
        try:
            chunk = _CHUNK.decode(data)
        except _UNREADABLE:
            return False
        for raw in chunk.choices or ():
            self._said.hear(raw)
        if bytes(chunk.usage) == b"null":
            return False
        self._usage = read_usage(bytes(chunk.usage)) or self._usage
        return not chunk.choices


def read_usage(raw: bytes) -> Usage | None:
    """Disjoint counts from a usage block; None when it can't be read.

    Prompt tokens include cached ones. Where the total exceeds prompt and completion, the rest is thinking that the
    upstream left out of the completion: it is billed as output.
    """
    try:
        told = _USAGE.decode(raw)
    except _UNREADABLE:
        return None
    details = told.prompt_tokens_details
    cached = (details.cached_tokens if details else None) or told.prompt_cache_hit_tokens or 0
    output = max(told.completion_tokens or 0, (told.total_tokens or 0) - told.prompt_tokens)
    if min(told.prompt_tokens, cached, output) < 0:
        return None
    fresh = told.prompt_tokens - cached if cached <= told.prompt_tokens else told.prompt_tokens
    return Usage(fresh_input=fresh, cached_input=cached, output=output)


class _Spoken:
    """Puts the assistant's message together from deltas, or takes it whole."""

    def __init__(self) -> None:
        self.finish = ""
        self._heard = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _SpokenCall] = {}

    def hear(self, raw: Raw) -> None:
        try:
            choice = _CHOICE.decode(raw)
        except _UNREADABLE:
            return
        if choice.index != 0:
            return
        self._heard = True
        self.finish = choice.finish_reason or self.finish
        said = choice.delta or choice.message
        if said is None:
            return
        self._text.append(said.text())
        self._reasoning.append(said.reasoning or said.reasoning_content or "")
        for place, call in enumerate(said.tool_calls or ()):
            self._hear_call(place if call.index is None else call.index, call)
        if said.function_call is not None:
            self._hear_call(0, _Call(function=said.function_call))

    def _hear_call(self, index: int, call: _Call) -> None:
        spoken = self._calls.setdefault(index, _SpokenCall())
        spoken.id = spoken.id or call.id or ""
        if call.function is not None:
            spoken.name += call.function.name or ""
            spoken.arguments.append(_text_of(call.function.arguments))

    def message(self) -> Message | None:
        """The message as one JSON object; its `finish_reason` shows a cut one as such (F10)."""
        if not self._heard:
            return None
        body: dict[str, object] = {"role": "assistant", "content": "".join(self._text) or None}
        if any(self._reasoning):
            body["reasoning"] = "".join(self._reasoning)
        if self._calls:
            body["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(call.arguments)},
                }
                for _, call in sorted(self._calls.items())
            ]
        body["finish_reason"] = self.finish or None
        data = msgspec.json.encode(body)
        return Message("assistant", data, identify(data))


class _SpokenCall:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


def identify(message: bytes) -> bytes:
    """Who said what, whatever a client did to the spelling: parts or text, null or empty, spaces in a call's arguments."""
    try:
        said = _SAID.decode(message)
    except _UNREADABLE:
        return hashlib.sha256(message).digest()
    parts = [said.role or "", said.text().strip(), said.tool_call_id or ""]
    calls = list(said.tool_calls or ())
    if said.function_call is not None:
        calls.append(_Call(function=said.function_call))
    for call in calls:
        function = call.function or _Function()
        parts += [call.id or "", function.name or "", _plain(_text_of(function.arguments))]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def _text_of(arguments: Raw) -> str:
    """Arguments are text that holds JSON; a few clients send the object itself."""
    raw = bytes(arguments)
    if raw.startswith(b'"'):
        return str(msgspec.json.decode(raw))
    return "" if raw in (b"", b"null") else raw.decode("utf-8", "replace")


def _plain(arguments: str) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except _UNREADABLE:
        return arguments.strip()
