"""Plays playbooks: a chat completion's body in, the bytes of an OpenAI-compatible answer and its timing out. No I/O."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from palestra.gateway.playbook import Cue, Playbook, Said, Turn, fill_in, find_cue, turn_at
from palestra.rules.units import SECOND, Micros

BYTES_A_TOKEN = 4
"""The scripted tokenizer: ceil(bytes / 4) tokens."""
SHELLS = {
    "shell": "command",
    "bash": "command",
    "exec_command": "cmd",
    "run_shell_command": "command",
    "execute_bash": "command",
    "terminal": "command",
}
"""Shell tools of known clients, and the argument that takes the command."""
_PASSING = frozenset({"429", "500", "hangup"})
_SLOW = Micros(SECOND)


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: when, and in which pieces."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: tuple[bytes, ...]
    streamed: bool = False
    wait: Micros = Micros(0)
    """Before the first byte."""
    pace: Micros = Micros(0)
    """Between two pieces."""
    fault: str = ""

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return sum(map(len, self.pieces))

    def sent(self) -> Iterator[bytes]:
        """The pieces that are sent; without a pace as one. A cut answer ends in its middle."""
        pieces: Sequence[bytes] = self.pieces
        if self.fault == "cut":
            whole = b"".join(pieces)
            pieces = pieces[: len(pieces) // 2] if len(pieces) > 1 else (whole[: len(whole) // 2],)
        yield from pieces if self.pace else (b"".join(pieces),)


class _Function(msgspec.Struct):
    name: str = ""


class _Call(msgspec.Struct):
    id: str = ""


class _Tool(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None

    def said(self) -> Said:
        content = self.content
        text = "".join(part.text for part in content) if isinstance(content, list) else content or ""
        return Said(self.role, text, tuple(call.id for call in self.tool_calls or ()))


class _Options(msgspec.Struct):
    include_usage: bool = False


class _Request(msgspec.Struct):
    model: str
    messages: msgspec.Raw
    tools: list[_Tool] | None = None
    stream: bool | None = None
    stream_options: _Options | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _Reply(msgspec.Struct, frozen=True):
    """What is said before it is written as JSON: text, then calls as (id, tool, arguments)."""

    text: str
    calls: tuple[tuple[str, str, str], ...]
    finish: str

    @property
    def tokens(self) -> int:
        size = len(self.text.encode()) + sum(len(arguments.encode()) for _, _, arguments in self.calls)
        return max(1, -(-size // BYTES_A_TOKEN))


class Player:
    """Plays a set of playbooks for any number of conversations."""

    def __init__(self, books: Mapping[str, Playbook]) -> None:
        self.books = dict(books)
        self._met: Counter[bytes] = Counter()
        self._played: dict[str, dict[int, int]] = {name: {} for name in books}

    def play(self, body: bytes) -> Performance:
        """The answer to one request. The same request gets the same answer, but for faults that pass."""
        try:
            request = msgspec.json.decode(body, type=_Request)
            messages = msgspec.json.decode(request.messages, type=list[_Message])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error(
                400, "invalid_request_error", "invalid_value", f"the request can't be read: {error}"
            )
        book = self.books.get(request.model)
        if book is None:
            known = ", ".join(self.books)
            return _error(
                404,
                "invalid_request_error",
                "model_not_found",
                f"no playbook {request.model!r}; there are {known}",
            )
        said = [message.said() for message in messages]
        cue = find_cue(book, said, self._played[book.name])
        self._played[book.name][cue.replies] = cue.turn
        turn = turn_at(book, cue.turn)
        if turn.fault in _PASSING:
            met = hashlib.sha256(body).digest()
            self._met[met] += 1
            if self._met[met] <= turn.fault_times:
                return _fault(turn.fault, book)
        cap = request.max_completion_tokens or request.max_tokens
        reply = _cut_to(_speak(turn, cue, said, request.tools or ()), cap)
        return _perform(book, turn, request, reply)


def _speak(turn: Turn, cue: Cue, said: Sequence[Said], tools: Sequence[_Tool]) -> _Reply:
    """The turn, filled in. A client without tools gets the text alone."""
    names = [tool.function.name for tool in tools]
    shell = next((name for name in SHELLS if name in names), names[0] if names else "")
    commands = [fill_in(line, said) for line in turn.run] if shell else []
    argument = SHELLS.get(shell, "command")
    calls = tuple(
        (f"call_{cue.turn}_{cue.replies}_{place}", shell, msgspec.json.encode({argument: line}).decode())
        for place, line in enumerate(commands)
    )
    return _Reply(fill_in(turn.say, said), calls, "tool_calls" if calls else "stop")


def _cut_to(reply: _Reply, cap: int | None) -> _Reply:
    """At the output cap a reply ends wherever it is, also in the middle of a call's arguments (F10)."""
    if cap is None or reply.tokens <= cap:
        return reply
    room = cap * BYTES_A_TOKEN
    text = reply.text.encode()[:room].decode("utf-8", "ignore")
    room -= len(reply.text.encode())
    calls = []
    for ident, tool, arguments in reply.calls:
        if room <= 0:
            break
        calls.append((ident, tool, arguments.encode()[:room].decode("utf-8", "ignore")))
        room -= len(arguments.encode())
    return _Reply(text, tuple(calls), "length")


def _perform(book: Playbook, turn: Turn, request: _Request, reply: _Reply) -> Performance:
    ident = "chatcmpl-" + hashlib.sha256(bytes(request.messages)).hexdigest()[:16]
    head = {"id": ident, "created": 0, "model": request.model}
    asked = -(-len(bytes(request.messages)) // BYTES_A_TOKEN)
    usage: dict[str, Any] | None = {
        "prompt_tokens": asked,
        "completion_tokens": reply.tokens,
        "total_tokens": asked + reply.tokens,
        "prompt_tokens_details": {"cached_tokens": int(asked * book.cached)},
    }
    if turn.fault == "no_usage":
        usage = None
    slow = turn.fault == "slow"
    wait = Micros(max(_SLOW, book.latency * 10)) if slow else book.latency
    if not request.stream:
        pieces: tuple[bytes, ...] = (_whole(head, reply, usage),)
        media = "application/json"
        wait = Micros(wait + book.per_token * reply.tokens)
    else:
        told = usage if request.stream_options and request.stream_options.include_usage else None
        pieces, media = tuple(_events(head, reply, told)), "text/event-stream"
    return Performance(
        status=200,
        headers=(("content-type", media),),
        pieces=pieces,
        streamed=bool(request.stream),
        wait=wait,
        pace=Micros(book.per_token * (10 if slow else 1)),
        fault="" if turn.fault in _PASSING else turn.fault,
    )


def _whole(head: Mapping[str, Any], reply: _Reply, usage: dict[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": ident, "type": "function", "function": {"name": tool, "arguments": arguments}}
            for ident, tool, arguments in reply.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    told = {} if usage is None else {"usage": usage}
    return msgspec.json.encode({**head, "object": "chat.completion", "choices": [choice], **told})


def _events(head: Mapping[str, Any], reply: _Reply, usage: dict[str, Any] | None) -> Iterator[bytes]:
    yield _event(head, {"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield _event(head, {"content": piece})
    for index, (ident, tool, arguments) in enumerate(reply.calls):
        begin = {"index": index, "id": ident, "type": "function", "function": {"name": tool, "arguments": ""}}
        yield _event(head, {"tool_calls": [begin]})
        for piece in _pieces(arguments):
            yield _event(head, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _event(head, {}, reply.finish)
    if usage is not None:
        yield _line({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _event(head: Mapping[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _line({**head, "object": "chat.completion.chunk", "choices": [choice]})


def _line(data: object) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def _pieces(text: str) -> Iterator[str]:
    """About a token each."""
    for start in range(0, len(text), BYTES_A_TOKEN):
        yield text[start : start + BYTES_A_TOKEN]


def _fault(fault: str, book: Playbook) -> Performance:
    if fault == "429":
        return _error(429, "rate_limit_error", "rate_limit_exceeded", "slow down", (("retry-after", "0"),))
    if fault == "500":
        return _error(
            500, "server_error", "internal_error", "the scripted upstream failed, as its playbook says"
        )
    return Performance(status=0, headers=(), pieces=(), wait=book.latency, fault=fault)


def _error(
    status: int, kind: str, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> Performance:
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Performance(
        status=status,
        headers=(("content-type", "application/json"), *headers),
        pieces=(msgspec.json.encode(body),),
    )
