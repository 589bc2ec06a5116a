"""The digest chain: rows in, the same rows out once each follows the one before it; the first that doesn't is `Corrupt`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from palestra.events.base import Event
from palestra.events.codec import KINDS, Row, first_digest, read_entry, row_digest, write_row
from palestra.ports import Journal
from palestra.rules.errors import Corrupt
from palestra.rules.units import Moment

CAUSES_TRIED = 10_000
"""How far back an altered `cause` is searched for, when a broken digest is explained."""


class Link(msgspec.Struct, frozen=True):
    """What the next row must follow."""

    seq: int
    digest: bytes
    at: Moment


def start_chain(run: str) -> Link:
    """What row 1 of this run follows."""
    return Link(0, first_digest(run), Moment(0))


def follow(link: Link, row: Row) -> Link:
    """The link that `row` makes; `Corrupt` names the row and the column when it doesn't follow."""
    if row.seq != link.seq + 1:
        raise Corrupt(f"row {row.seq}, column seq: row {link.seq + 1} must come after row {link.seq}")
    if row.at < link.at:
        raise Corrupt(f"row {row.seq}, column at: {row.at} is before row {link.seq}, which has {link.at}")
    if _digest_after(link.digest, row) != row.digest:
        raise Corrupt(
            f"row {row.seq}, column {_guess(link, row)}: the digest doesn't follow from row {link.seq}"
        )
    return Link(row.seq, row.digest, row.at)


def write_rows(
    head: tuple[int, bytes],
    at: Moment,
    actor: str,
    events: Iterable[Event],
    *,
    cause: int | None = None,
    request: str | None = None,
) -> list[Row]:
    """The events of one ruling as the rows that come after `head`, which is what `Journal.head` gives."""
    rows = []
    seq, digest = head
    for event in events:
        seq += 1
        rows.append(write_row(digest, seq, at, actor, cause, request, event))
        digest = rows[-1].digest
    return rows


def check_chain(rows: Iterable[Row], run: str) -> Iterator[Row]:
    """Pass on each row that follows, from row 1; stop with `Corrupt` at the first that doesn't. Never holds more than one."""
    link = start_chain(run)
    for row in rows:
        link = follow(link, row)
        yield row


def walk(journal: Journal, after: int = 0, page: int = 1000) -> Iterator[Row]:
    """All rows after `after`, read page by page, so that a long journal never lies in memory whole."""
    while rows := journal.read(after, page):
        yield from rows
        after = rows[-1].seq


def _digest_after(previous: bytes, row: Row) -> bytes:
    return row_digest(previous, *msgspec.structs.astuple(row)[:-1])


def _guess(link: Link, row: Row) -> str:
    """The column most likely altered: one whose plausible other value makes the digest right again, else what looks odd."""
    for column, other in _repairs(row):
        if _digest_after(link.digest, other) == row.digest:
            return column
    if len(row.digest) != len(link.digest):
        return "digest"
    if row.kind not in KINDS:
        return "kind"
    try:
        read_entry(row)
    except Corrupt:
        return "body"
    return "body, actor, at or digest"


def _repairs(row: Row) -> Iterator[tuple[str, Row]]:
    """The row with one column replaced, for each column that has few plausible values."""
    change = msgspec.structs.replace
    for kind in KINDS:
        yield "kind", change(row, kind=kind)
    for version in range(10):
        yield "version", change(row, version=version)
    yield "request", change(row, request=None)
    yield "request", change(row, request="")
    with suppress(Corrupt):
        yield "subject", change(row, subject=read_entry(row).event.subject)
    yield "cause", change(row, cause=None)
    for cause in range(row.seq - 1, max(0, row.seq - CAUSES_TRIED), -1):
        yield "cause", change(row, cause=cause)
