"""What a protocol is: five functions from a client's bytes to the upstream's, and from the upstream's to a reading."""

from __future__ import annotations

from typing import Protocol

import msgspec

from palestra.ports import PreparedCall
from palestra.rules.errors import PalestraError
from palestra.rules.prices import Usage


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request as far as the gateway must know it; everything else stays bytes."""

    model: str
    asked_cap: int | None
    """The output maximum that the client named."""
    input_bound: int
    """Tokens that the input can be at most."""
    streamed: bool
    wants_usage: bool
    """The client itself asked for usage in its stream."""
    body: bytes
    """As the client sent it."""
    fields: dict[str, msgspec.Raw]
    """The body's top level, values as the client sent them."""


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation: its own bytes, and an identity that survives how clients write it again."""

    role: str
    body: bytes
    identity: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer says of itself once it is over, or broke off."""

    usage: Usage | None
    """None: the upstream told no usage."""
    finish: str
    """The upstream's own word for why it ended; empty when it gave none."""
    reply: Message | None


class Reply(msgspec.Struct, frozen=True):
    """An answer of the gateway's own, written as the protocol's clients expect it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Tap(Protocol):
    """Listens to one answer as it passes."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the upstream's next bytes; returns those that may go to the client now."""
        ...

    def close(self) -> bytes:
        """The upstream has ended: returns what was held back for being incomplete."""
        ...

    def read(self) -> Reading:
        """What was heard. Never fails: an answer that can't be read has no usage."""
        ...


class WireProtocol(Protocol):
    """A way to talk to a model over HTTP."""

    name: str
    said_in: str
    """The field of a request that holds its messages."""

    def read(self, path: str, body: bytes) -> Asked:
        """`BadInput` for what can't be read, `Refusal` for what can't be priced. The upstream isn't touched."""
        ...

    def prepare(self, asked: Asked, base: str, key: str, model: str, output_cap: int) -> PreparedCall:
        """The call for an upstream at `base`: only the protocol's permitted changes are made to the body."""
        ...

    def tap(self, asked: Asked, media_type: str) -> Tap:
        """A tap for one successful answer."""
        ...

    def messages(self, asked: Asked) -> tuple[Message, ...]:
        """The conversation that the request carries."""
        ...

    def identify(self, body: bytes) -> bytes:
        """The identity of one message, from bytes that `messages` or a reading's reply gave."""
        ...

    def refuse(self, error: PalestraError, retry_after: int) -> Reply:
        """A no, in the words and status that make this protocol's clients stop, or wait `retry_after` seconds."""
        ...
