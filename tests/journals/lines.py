"""Journal rows as lines of JSON and back, for golden journals: the body is text, so that a change shows in a diff."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from palestra.events.codec import Row
from palestra.rules.units import Moment

FOLDER = Path(__file__).parent


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row."""

    seq: int
    at: int
    kind: str
    version: int
    subject: str
    actor: str
    cause: int | None
    request: str | None
    body: str
    digest: str


def write_lines(rows: Iterable[Row]) -> bytes:
    """The file of a journal."""
    return b"".join(msgspec.json.encode(_line(row)) + b"\n" for row in rows)


def read_lines(data: bytes) -> list[Row]:
    """Its rows, bodies to the byte as they were."""
    return [_row(msgspec.json.decode(line, type=Line)) for line in data.splitlines()]


def _line(row: Row) -> Line:
    return Line(
        row.seq, row.at, row.kind, row.version, row.subject, row.actor, row.cause, row.request, row.body.decode(),
        row.digest.hex(),
    )  # fmt: skip


def _row(line: Line) -> Row:
    return Row(
        line.seq, Moment(line.at), line.kind, line.version, line.subject, line.actor, line.cause, line.request,
        line.body.encode(), bytes.fromhex(line.digest),
    )  # fmt: skip
