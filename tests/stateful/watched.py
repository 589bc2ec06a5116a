"""A rehearsal under watch: every ruling is judged twice, every row read a second time, every repetition tried."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from tests.building import RUN, START, Rehearsal, events_of
from tests.stateful.shadow import Shadow, deep, unchanged
from tests.stateful.waits import check_wait

from palestra.events.base import Event
from palestra.events.codec import Row
from palestra.events.runs import ObservationIgnored, Refused
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.referee.observations import (
    DocumentFrozen,
    Observation,
    RefusalsRepeated,
    ServerDown,
    ServerUp,
    TailSetAside,
    Tick,
    Trouble,
    TroubleOver,
)
from palestra.referee.requests import Receipt, Request
from palestra.referee.rulings import follow, next_due, observe, rule
from palestra.referee.schedule import explain, waiting
from palestra.rules.competition import Competition
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.runtime.book import Book

COUNTED = (ServerUp, RefusalsRepeated, TailSetAside)
"""Facts of which every telling is one more: a further start, further repeats, further bytes."""
RECURRING = (Tick, ServerDown, Trouble, TroubleOver, DocumentFrozen)
"""Facts that may come true again later, after others."""
CALLS = (CallReserved, CallCharged, CallReleased)


class Watched(Rehearsal):
    """Nothing it does may surprise its shadow."""

    def __init__(self, rules: Competition, *, at: int = START) -> None:
        self.shadow = Shadow()
        self.granted: dict[tuple[str, str], tuple[Request, Receipt]] = {}
        self.told: list[Observation] = []
        """Facts that were taken, not ignored."""
        self._batch: tuple[Row, ...] = ()
        super().__init__(rules, at=at)

    def ask(self, request: Request) -> Receipt | Refusal:
        """Judge it first without the book; the book must come to the same."""
        known = self.granted.get((request.actor, request.key or ""))
        with deep(self.state):
            ruling = unchanged(self.state, lambda: rule(self.state, request, self.at))
        mark = len(self.rows)
        answer = super().ask(request)
        self._batch = tuple(self.rows[mark:])
        if known is not None:
            self._check_repeated(request, known, answer)
            return answer
        if isinstance(ruling, Refusal):
            assert isinstance(answer, Refusal) and answer.code == ruling.code and str(answer) == str(ruling)
            assert len(self._batch) <= 1
            self.shadow.take(self._batch)
            return answer
        assert isinstance(answer, Receipt) and not answer.repeated
        self._take(ruling)
        if request.key is not None:
            self.granted[request.actor, request.key] = (request, answer)
        return answer

    def tell(self, observation: Observation) -> list[Event]:
        """As `ask`; what was taken and is told again changes nothing more."""
        with deep(self.state):
            said = unchanged(self.state, lambda: observe(self.state, observation, self.at))
        mark = len(self.rows)
        super().tell(observation)
        self._batch = tuple(self.rows[mark:])
        self._take(said)
        ignored = any(isinstance(event, ObservationIgnored) for event in said)
        if not ignored and not isinstance(observation, COUNTED):
            self.tell_again(observation)
            if said and not isinstance(observation, RECURRING):
                self.told.append(observation)
        return events_of(self.rows[mark:])

    def tell_again(self, observation: Observation) -> None:
        """A fact that was told before: at most a note that it was ignored."""
        with_it = observe(self.state, observation, self.at)
        assert all(isinstance(event, ObservationIgnored) for event in with_it), with_it

    def ask_again(self, key: tuple[str, str]) -> None:
        """The same request with the same key."""
        answer = self.ask(self.granted[key][0])
        assert isinstance(answer, Receipt) and answer.repeated

    def crash(self, *, lost: bool) -> None:
        """Killed; if `lost`, before the last batch was on disk, so that nobody was answered."""
        if lost and self._batch:
            gone = len(self._batch)
            self.rows = self.rows[:-gone]
            self.granted = {key: seen for key, seen in self.granted.items() if seen[1].seq <= len(self.rows)}
            self.told.clear()
        self._batch = ()
        old, self.book = self.book, Book(RUN)
        self.book.load(self.rows)
        if not lost:
            assert _whole(self.book) == _whole(old), "what was read again isn't what was live"
        self.shadow = Shadow()
        self.shadow.take(self.rows)

    def check(self) -> None:
        """What must hold between any two acts."""
        state = self.state
        assert (self.shadow.state, self.shadow.catalog) == (state, self.book.catalog), (
            "replay isn't what is live"
        )
        with deep(state):
            due = unchanged(state, lambda: next_due(state))
            if state.clock.server and self._settled():
                self._check_settled(due)
        if state.clock.stage == "results":
            self._check_over()

    def _check_settled(self, due: Moment | None) -> None:
        state, at = self.state, self.at
        assert not unchanged(state, lambda: follow(state, at)), "something was left to follow"
        assert due is None or due > at, f"due at {due}, now {at}: the server would wake for nothing, for ever"
        for job in waiting(state):
            check_wait(state, job, unchanged(state, partial(explain, state, job.job, at)))

    def _settled(self) -> bool:
        """The rules were followed at this very instant: not when time only went by, on a no, or on calls alone."""
        events = events_of(self._batch)
        return self.state.at == self.at and bool(events) and not isinstance(events[-1], (*CALLS, Refused))

    def _check_over(self) -> None:
        state = self.state
        assert not state.sessions and not state.calls and not state.jobs and not state.attempts
        assert all(one.state == "accepted" for one in state.nominations.values())
        assert all(sitting.over for sitting in state.exams.values())

    def _take(self, ruled: Sequence[Event]) -> None:
        rows = self._batch[: len(ruled)]
        assert events_of(rows) == list(ruled)
        self.shadow.take(rows)
        if ruled and all(isinstance(event, CALLS) for event in ruled):
            self.shadow.take(self._batch[len(ruled) :])
        else:
            self.shadow.take_followed(self._batch[len(ruled) :], self.at)

    def _check_repeated(
        self, request: Request, known: tuple[Request, Receipt], answer: Receipt | Refusal
    ) -> None:
        assert not self._batch, "a repeated request was written down"
        if request == known[0]:
            assert answer == msgspec.structs.replace(known[1], repeated=True)
        else:
            assert isinstance(answer, Refusal) and answer.code == "key_reused"


def _whole(book: Book) -> tuple[object, ...]:
    return book.seq, book.digest, book.state, book.catalog
