"""Events to journal rows and back: kinds, versions, digests. Bodies are never re-encoded once written."""

from __future__ import annotations

import hashlib

import msgspec

from palestra.events import corners, exams, jobs, nominations, runs, spend
from palestra.events.base import Entry, Event
from palestra.rules.errors import Corrupt
from palestra.rules.units import Moment

FORMAT = "palestra-journal/1"

KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for room in (runs, corners, spend, jobs, nominations, exams)
    for kind in vars(room).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
_ENCODER = msgspec.json.Encoder()


class Row(msgspec.Struct, frozen=True):
    """One line of the journal, as stored."""

    seq: int
    at: Moment
    kind: str
    version: int
    subject: str
    actor: str
    cause: int | None
    request: str | None
    body: bytes
    digest: bytes


def first_digest(run: str) -> bytes:
    """What row 1's digest follows: the format's name and the run's id."""
    return _hash((FORMAT.encode(), run.encode()))


def write_row(
    previous: bytes, seq: int, at: Moment, actor: str, cause: int | None, request: str | None, event: Event
) -> Row:
    """Encode an event as the row after the one whose digest is `previous`."""
    body = _ENCODER.encode(event)
    kind = type(event).__name__
    digest = row_digest(previous, seq, at, kind, event.VERSION, event.subject, actor, cause, request, body)
    return Row(seq, at, kind, event.VERSION, event.subject, actor, cause, request, body, digest)


def row_digest(
    previous: bytes,
    seq: int,
    at: int,
    kind: str,
    version: int,
    subject: str,
    actor: str,
    cause: int | None,
    request: str | None,
    body: bytes,
) -> bytes:
    """blake2b-256 over the previous digest and every other column, each length-prefixed; null and empty differ."""
    return _hash(
        (
            previous,
            b"%d" % seq,
            b"%d" % at,
            kind.encode(),
            b"%d" % version,
            subject.encode(),
            actor.encode(),
            b"" if cause is None else b"%d" % cause,
            b"0" if request is None else b"1" + request.encode(),
            body,
        )
    )


def _hash(parts: tuple[bytes, ...]) -> bytes:
    state = hashlib.blake2b(digest_size=32)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def read_entry(row: Row) -> Entry:
    """Decode a row; `Corrupt` names the row when its kind, version or body can't be read."""
    kind = KINDS.get(row.kind)
    if kind is None:
        raise Corrupt(f"row {row.seq}: kind {row.kind!r} is unknown to this release; a newer one wrote it")
    if row.version > kind.VERSION:
        raise Corrupt(
            f"row {row.seq}: {row.kind} has version {row.version}, this release reads up to {kind.VERSION}"
        )
    try:
        return Entry(row.seq, row.at, row.actor, row.request, _DECODERS[row.kind].decode(row.body))
    except msgspec.DecodeError as error:
        raise Corrupt(f"row {row.seq}: the body of {row.kind} can't be read: {error}") from error
