"""The journal and the record in memory, for simulations, demonstrations and tests; the same contract as the durable ones.

`room` makes a small disk of them: what would pass it is refused whole, as a full file system does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from palestra.events.codec import Row
from palestra.journal.bodies import digest_of
from palestra.journal.chain import follow, start_chain
from palestra.journal.repair import TailFound
from palestra.ports import StepRow
from palestra.rules.errors import Broken
from palestra.rules.units import Digest


class MemoryJournal:
    """A `Journal` that forgets when it goes. After a failed append it takes nothing more, as the durable one."""

    tails: tuple[TailFound, ...] = ()
    """Nothing is ever interrupted here."""

    def __init__(self, run: str, rows: Sequence[Row] = (), *, room: int | None = None) -> None:
        """Begin with these rows, checked; hold at most `room` rows."""
        self._rows: list[Row] = []
        self._link = start_chain(run)
        self._stopped = False
        self._room: int | None = None
        self.append(rows)
        self._room = room

    def append(self, rows: Sequence[Row]) -> None:
        """All rows, or none and an error."""
        if self._stopped:
            raise Broken("nothing is written after a failed commit; open it anew", retry=False)
        link = self._link
        for row in rows:
            link = follow(link, row)
        if self._room is not None and link.seq > self._room:
            self._stopped = True
            raise Broken(f"no room for row {self._room + 1}")
        self._rows.extend(rows)
        self._link = link

    def read(self, after: int = 0, limit: int = 1000) -> list[Row]:
        """Rows with seq > after, in order, at most limit."""
        return self._rows[after : after + limit]

    def head(self) -> tuple[int, bytes]:
        """(seq, digest) of the last row; (0, the first digest) when empty."""
        return self._link.seq, self._link.digest

    def close(self) -> None:
        """Nothing to let go of."""


class MemoryRecord:
    """A `Record` that forgets when it goes."""

    def __init__(self) -> None:
        self._bodies: dict[Digest, bytes | None] = {}
        self._steps: dict[str, dict[int, StepRow]] = {}

    def put(self, data: bytes | Path) -> Digest:
        """Keep one body."""
        digest = digest_of(data)
        if digest not in self._bodies:
            self._bodies[digest] = data if isinstance(data, bytes) else data.read_bytes()
        return digest

    def open(self, digest: Digest) -> bytes:
        """The body; `KeyError` when unknown or erased."""
        body = self._bodies[digest]
        if body is None:
            raise KeyError(digest)
        return body

    def erase(self, digest: Digest) -> None:
        """Remove a body for good and leave a tombstone; `KeyError` when it was never here."""
        if digest not in self._bodies:
            raise KeyError(digest)
        self._bodies[digest] = None

    def erased(self, digest: Digest) -> bool:
        """Whether this body was here and was erased."""
        return digest in self._bodies and self._bodies[digest] is None

    def keep(self, blobs: Iterable[bytes | Path], steps: Iterable[StepRow]) -> None:
        """All of it. Known bodies are kept once; an erased one stays erased."""
        for body in blobs:
            self.put(body)
        for step in steps:
            self._steps.setdefault(step.corner, {})[step.n] = step

    def steps(self, corner: str, after: int = 0, limit: int = 1000) -> list[StepRow]:
        """Steps of a corner with n > after, in order, at most limit."""
        numbered = self._steps.get(corner, {})
        return [numbered[n] for n in sorted(numbered) if n > after][:limit]

    def close(self) -> None:
        """Nothing to let go of."""
