"""The journal followed from elsewhere, read-only: another process's journal in, its new rows out, page by page.

Between two pages no read transaction is open: a reader that held one would keep SQLite from ever shortening the
write-ahead file. It works whether or not a server is writing, and sees only rows that are durable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from palestra.events.codec import Row
from palestra.journal.database import open_for_reading, saying
from palestra.journal.sqlite import FILE_NAME, LAYOUT, read_page


class Tail:
    """A follower's place in the journal of a run folder."""

    after: int
    """The last row given out."""

    def __init__(self, folder: Path, after: int = 0, page: int = 1000) -> None:
        self._path = folder / FILE_NAME
        self._page = page
        self._connection: sqlite3.Connection | None = None
        self.after = after

    def rows(self) -> Iterator[Row]:
        """Rows after the last one given out, until there are no more for now. No journal yet: no rows."""
        while page := self._read():
            for row in page:
                self.after = row.seq
                yield row

    def close(self) -> None:
        """Close the file; the place is kept, and `rows` opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self) -> list[Row]:
        if self._connection is None:
            self._connection = open_for_reading(self._path, LAYOUT)
        if self._connection is None:
            return []
        with saying(self._path):
            return read_page(self._connection, self.after, self._page)
