"""The core of a desk, without clocks, threads or disks: rulings in, rows out, state folded. Simulations use it as it is."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from palestra.events.base import Entry, Event, clip
from palestra.events.codec import Row, first_digest, read_entry, write_row
from palestra.events.runs import Refused
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.referee.observations import Observation, RefusalsRepeated
from palestra.referee.repeat import fingerprint, repeated
from palestra.referee.requests import Receipt, Request
from palestra.referee.rulings import follow, observe, rule
from palestra.rules.errors import Corrupt, Refusal
from palestra.rules.units import Moment
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog, View

LONGEST_CHAIN = 10_000
"""Steps of `follow` after one ruling; more means that two rules undo each other."""
_SPEND = (CallReserved, CallCharged, CallReleased)
"""Events that change nothing a rule follows from, so that model calls don't pay for a scheduler pass."""


class Outcome(msgspec.Struct, frozen=True):
    """Rows to be made durable, then the answer."""

    rows: tuple[Row, ...]
    answer: Receipt | Refusal


class Book:
    """State, catalogue and head of one run. The only place where rows are numbered."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.state = State()
        self.catalog = Catalog()
        self.seq = 0
        self.digest = first_digest(run)
        self._repeats: dict[tuple[str, str, str], int] = {}

    def load(self, rows: Iterable[Row]) -> None:
        """Fold rows that are on the record already."""
        for row in rows:
            if row.seq != self.seq + 1:
                raise Corrupt(f"row {row.seq} follows row {self.seq}")
            self._take(row, read_entry(row))

    def ask(self, request: Request, at: Moment) -> Outcome:
        """Rule, write, fold, and let follow what follows."""
        at = self._later(at)
        before = repeated(self.state, request)
        if before is not None:
            return Outcome((), before)
        ruling = rule(self.state, request, at)
        if isinstance(ruling, Refusal):
            return Outcome(self._refuse(request, ruling, at), ruling)
        rows = self._write(ruling, at, request.actor, request.key, None)
        first = rows[0]
        if not self._only_spend(ruling):
            rows += self._follow(at, first.seq)
        return Outcome(tuple(rows), Receipt(first.kind, first.subject, first.seq))

    def tell(self, observation: Observation, at: Moment, actor: str = "world") -> tuple[Row, ...]:
        """Take a fact in, and let follow what follows."""
        at = self._later(at)
        events = observe(self.state, observation, at)
        rows = self._write(events, at, actor, None, None)
        if not self._only_spend(events):
            rows += self._follow(at, rows[0].seq if rows else None)
        return tuple(rows)

    def note(self, corner: str, refusal: Refusal, at: Moment) -> tuple[Row, ...]:
        """A no that was given before the referee could be asked, such as to a time limit without a unit."""
        return self._refuse(Request(corner, None), refusal, self._later(at))

    def view(self, at: Moment) -> View:
        """What is so at this instant."""
        return View(self.state, self.catalog, self._later(at))

    def repeats(self) -> list[RefusalsRepeated]:
        """Refusals repeated since this was last called; their count starts anew."""
        counted = [
            RefusalsRepeated(corner, code, about, n) for (corner, code, about), n in self._repeats.items()
        ]
        self._repeats.clear()
        return counted

    def _later(self, at: Moment) -> Moment:
        return Moment(max(at, self.state.at))

    def _only_spend(self, events: list[Event]) -> bool:
        """Whether nothing follows from these; after the running stage, its last calls are waited for."""
        running = self.state.clock.stage == "running"
        return running and bool(events) and all(isinstance(event, _SPEND) for event in events)

    def _refuse(self, request: Request, refusal: Refusal, at: Moment) -> tuple[Row, ...]:
        """The first no of its kind is an event, repeats are only counted; organisers' own are not recorded."""
        if request.actor not in self.state.corners:
            return ()
        about = clip(refusal.subject)  # entrants' own words may stand in both texts
        known = (request.actor, refusal.code, about)
        if known in self.state.refused:
            self._repeats[known] = self._repeats.get(known, 0) + 1
            return ()
        event = Refused(request.actor, refusal.code, about, clip(refusal.message), fingerprint(request))
        return tuple(self._write([event], at, request.actor, request.key, None))

    def _follow(self, at: Moment, cause: int | None) -> list[Row]:
        rows: list[Row] = []
        for _ in range(LONGEST_CHAIN):
            events = follow(self.state, at)
            if not events:
                return rows
            rows += self._write(events, at, "rule", None, cause)
        raise Corrupt(f"rules undo each other after row {self.seq}")

    def _write(
        self, events: list[Event], at: Moment, actor: str, request: str | None, cause: int | None
    ) -> list[Row]:
        rows = []
        for event in events:
            row = write_row(self.digest, self.seq + 1, at, actor, cause, request, event)
            self._take(row, Entry(row.seq, row.at, actor, request, event))
            rows.append(row)
            request = None  # a key belongs to the first event that came of it
            cause = cause or row.seq
        return rows

    def _take(self, row: Row, entry: Entry) -> None:
        try:
            fold.fold(self.state, entry)
            catalog.fold(self.catalog, entry)
        except KeyError as error:
            raise Corrupt(
                f"row {row.seq}: {row.kind} is about {error}, which no row before it made"
            ) from error
        self.seq, self.digest = row.seq, row.digest
