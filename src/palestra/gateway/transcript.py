"""The flight recorder: a settled call's conversation goes in, its new messages come out as numbered steps and kept bodies.

Clients send the whole conversation with every call. A message is new when the record holds it less often than the call
does, so nothing is numbered twice: not after a restart, not when a client drops or rewrites parts of its context, not
when several conversations of one corner alternate. A reply is always new.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from palestra.gateway.protocols import identify
from palestra.gateway.protocols.shape import Message
from palestra.ports import Clock, StepRow
from palestra.rules.units import Digest


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One settled call as it was spoken."""

    corner: str
    call: str
    asked: dict[str, msgspec.Raw]
    """The top level of the client's body."""
    said_in: str
    """The field of it that holds the messages."""
    messages: tuple[Message, ...]
    answered: bytes
    """The upstream's body, all that came of it."""
    reply: Message | None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """Where an exchange is on the record: steps `first_step` to `first_step + steps - 1` are new with it."""

    asked_body: Digest | None = None
    answered_body: Digest | None = None
    first_step: int = 0
    steps: int = 0


Record = Callable[[Exchange], Recorded]
"""What the gateway calls once for each answered call, in the order of settling, right before the desk is told."""


class Shelf(Protocol):
    """Where bodies and steps are put; they are durable before any row that names them. A desk is one."""

    def keep(self, data: bytes) -> Digest: ...
    def keep_steps(self, steps: Sequence[StepRow]) -> None: ...


class Transcript:
    """What a corner's conversations have held so far. Pure."""

    def __init__(self) -> None:
        self._known: Counter[bytes] = Counter()

    def remember(self, identity: bytes) -> None:
        """A message that is on the record already."""
        self._known[identity] += 1

    def read(self, messages: Iterable[Message], reply: Message | None) -> list[Message]:
        """The messages that are new, in order, now remembered."""
        here: Counter[bytes] = Counter()
        new = []
        for message in messages:
            here[message.identity] += 1
            if here[message.identity] > self._known[message.identity]:
                self._known[message.identity] = here[message.identity]
                new.append(message)
        if reply is not None:
            self.remember(reply.identity)
            new.append(reply)
        return new


class Recorder:
    """A `Record` that puts everything on a shelf: each corner's steps, numbered, and every body once."""

    def __init__(self, shelf: Shelf, clock: Clock) -> None:
        self._shelf = shelf
        self._clock = clock
        self._transcripts: dict[str, Transcript] = {}
        self._last: dict[str, int] = {}
        self._shelved: set[Digest] = set()

    def reload(self, rows: Iterable[StepRow], open_body: Callable[[Digest], bytes]) -> None:
        """Take in the steps on the record, in any order. An erased body's step keeps its number."""
        for row in rows:
            self._last[row.corner] = max(self._last.get(row.corner, 0), row.n)
            try:
                self._transcript(row.corner).remember(identify(open_body(row.digest)))
            except KeyError:
                continue

    def __call__(self, exchange: Exchange) -> Recorded:
        """Number what is new, and have it kept. The request is kept as it was, its messages as digests."""
        corner, at = exchange.corner, self._clock.now()
        new = self._transcript(corner).read(exchange.messages, exchange.reply)
        first = self._last.get(corner, 0) + 1
        self._last[corner] = first + len(new) - 1
        self._shelf.keep_steps(
            [
                StepRow(corner, first + place, exchange.call, message.role, self._keep(message.body), at)
                for place, message in enumerate(new)
            ]
        )
        said = [self._keep(message.body) for message in exchange.messages]
        asked = {**exchange.asked, exchange.said_in: said}
        return Recorded(
            asked_body=self._shelf.keep(msgspec.json.encode(asked)),
            answered_body=self._shelf.keep(exchange.answered),
            first_step=first if new else 0,
            steps=len(new),
        )

    def _keep(self, body: bytes) -> Digest:
        """Messages come again with every call; each is put on the shelf once."""
        digest = Digest("sha256:" + hashlib.sha256(body).hexdigest())
        if digest not in self._shelved:
            self._shelved.add(digest)
            self._shelf.keep(body)
        return digest

    def _transcript(self, corner: str) -> Transcript:
        return self._transcripts.setdefault(corner, Transcript())


def restore_request(asked: bytes, said_in: str, open_body: Callable[[Digest], bytes]) -> bytes:
    """The client's request from its kept form: every value with the client's own bytes."""
    fields = msgspec.json.decode(asked, type=dict[str, msgspec.Raw])
    digests = msgspec.json.decode(fields[said_in], type=list[Digest])
    fields[said_in] = msgspec.Raw(b"[" + b",".join(open_body(digest) for digest in digests) + b"]")
    return msgspec.json.encode(fields)
