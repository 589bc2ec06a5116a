"""A second reading of a run, off its encoded rows: what must hold after every row is checked as the row is folded."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tests.building import RUN, events_of
from tests.sealing import sealed
from tests.stateful.ledger import HOUSE, Ledger

from palestra.events.base import Entry, Event
from palestra.events.codec import Row, read_entry
from palestra.events.corners import EntrantRemoved, SessionStarted
from palestra.events.exams import ExamStarted
from palestra.events.jobs import AttemptStarted, JobSubmitted
from palestra.events.nominations import (
    CheckpointSealed,
    CopyStarted,
    NominationAccepted,
    NominationRequested,
    NominationWithdrawn,
)  # fmt: skip
from palestra.events.runs import STAGES, Paused, Resumed, StageEntered
from palestra.events.spend import CallReserved
from palestra.journal.chain import follow as follow_chain
from palestra.journal.chain import start_chain
from palestra.referee.rulings import follow
from palestra.rules.competition import Node
from palestra.rules.times import ends_at
from palestra.rules.units import Moment
from palestra.state import catalog, fold
from palestra.state.arena import Attempt, State
from palestra.state.catalog import Catalog

T = TypeVar("T")


class Overcommitted(AssertionError):
    """More memory was given out than a node has."""

    def __init__(self, node: Node, attempts: Sequence[Attempt]) -> None:
        given = ", ".join(f"{one.attempt} {one.memory}" for one in attempts)
        super().__init__(f"node {node.name} has {node.memory} bytes, given out: {given}")
        self.attempts = tuple(attempts)


class Shadow:
    """Row by row: chain, ids, ledgers, nodes, current nominations, stages and their times."""

    def __init__(self) -> None:
        self.state = State()
        self.catalog = Catalog()
        self.ledger = Ledger()
        self._link = start_chain(RUN)
        self._ids: set[str] = set()
        self._pauses: list[tuple[Moment, Moment | None]] = []

    def take(self, rows: Sequence[Row]) -> None:
        """Fold encoded rows, each against all that must hold."""
        for row in rows:
            self._link = follow_chain(self._link, row)
            entry = read_entry(row)
            before = {corner: seat.current for corner, seat in self.state.corners.items()}
            with sealed():
                self._check_before(entry)
                fold.fold(self.state, entry)
                catalog.fold(self.catalog, entry)
                self.ledger.take(entry.event)
            assert self.state.accounts == self.ledger.accounts(), row
            assert all(min(one.spent, one.held, one.left) >= 0 for one in self.state.accounts.values())
            self._check_nodes()
            self._check_current(entry.event, before)

    def take_followed(self, rows: Sequence[Row], at: Moment) -> None:
        """Rows that must be exactly what follows by rule, step by step, until nothing does."""
        taken = 0
        while events := unchanged(self.state, lambda: follow(self.state, at)):
            step = rows[taken : taken + len(events)]
            assert events_of(step) == events
            self.take(step)
            taken += len(step)
        assert taken == len(rows), f"nobody knows why {events_of(rows[taken:])} were written"

    def end(self, at: int) -> Moment:
        """When the running stage ends, by the clock of the rules room, which the referee doesn't use."""
        stages = self.state.rules.stages
        return ends_at(self.state.clock.start, stages.running, self._pauses, stages.pause, at)

    def _check_before(self, entry: Entry) -> None:
        """What may happen only at its time, and ids that may be given only once."""
        event, at, clock = entry.event, entry.at, self.state.clock
        paused = bool(self._pauses) and self._pauses[-1][1] is None
        running = clock.stage == "running"
        match event:
            case StageEntered(stage=stage):
                assert STAGES.index(stage) == STAGES.index(clock.stage) + 1
            case Paused():
                assert not paused
                self._pauses.append((at, None))
            case Resumed():
                assert paused
                self._pauses[-1] = (self._pauses[-1][0], at)
            case CallReserved(call=made) | SessionStarted(session=made):
                assert running and not paused and at < self.end(at)
                self._new(made)
            case JobSubmitted(job=made, corner=corner):
                assert corner == HOUSE or (running and at < self.end(at))
                self._new(made)
            case AttemptStarted(attempt=made, corner=corner):
                assert not paused and (corner == HOUSE or (running and at < self.end(at)))
                self._new(made)
            case NominationRequested(nomination=made) | CheckpointSealed(checkpoint=made):
                assert running and at < self.end(at)
                self._new(made)
            case CopyStarted(copy=made):
                assert clock.stage in ("running", "closing")
                self._new(made)
            case ExamStarted(exam=made):
                assert clock.stage == "judging"
                self._new(made)
            case _:
                pass

    def _new(self, made: str) -> None:
        assert made not in self._ids, f"{made} was given before"
        self._ids.add(made)

    def _check_nodes(self) -> None:
        """No node over its GPUs or memory, no GPU given twice, no corner over its caps."""
        attempts = self.state.attempts.values()
        given = [(one.node, gpu) for one in attempts for gpu in one.gpus]
        assert len(given) == len(set(given)), f"a GPU was given twice: {given}"
        if self.state.opened is None:
            return
        for node in self.state.rules.nodes:
            here = [one for one in attempts if one.node == node.name]
            assert all(0 <= gpu < node.gpus for one in here for gpu in one.gpus)
            if sum(one.memory for one in here) > node.memory:
                raise Overcommitted(node, here)
        jobs = self.state.rules.jobs
        for corner in self.state.corners:
            mine = [one for one in attempts if one.corner == corner]
            assert sum(len(one.gpus) for one in mine) <= jobs.gpus_running
            assert all(one.memory <= len(one.gpus) * jobs.memory_per_gpu for one in mine)

    def _check_current(self, event: Event, before: dict[str, str]) -> None:
        """Exactly one or no current nomination a corner; it changes in one event, and never to an older request."""
        for corner, seat in self.state.corners.items():
            accepted = [
                one
                for one in self.state.nominations.values()
                if one.corner == corner and one.state == "accepted"
            ]
            assert [one.nomination for one in accepted] == ([seat.current] if seat.current else [])
            cards = [
                card for card in self.catalog.nominations.values() if card.corner == corner and card.current
            ]
            assert [card.nomination for card in cards] == ([seat.current] if seat.current else [])
            if seat.current == before.get(corner, ""):
                continue
            if isinstance(event, EntrantRemoved):
                assert (event.corner, seat.current) == (corner, "")
                continue
            if isinstance(event, NominationWithdrawn):
                assert (event.nomination, seat.current) == (before[corner], "")
                continue
            assert isinstance(event, NominationAccepted)
            assert event.current and event.corner == corner and event.nomination == seat.current
            assert _number(seat.current) > _number(before[corner])


def unchanged(state: State, judge: Callable[[], T]) -> T:
    """What `judge` says of a state, which must hold the very same values afterwards."""
    before = _values(state)
    with sealed():
        said = judge()
    assert _values(state) == before, "the state was changed by who may only read it"
    return said


def _values(state: State) -> list[object]:
    """Dicts copied; what they hold is frozen, which `deep` proves by the bytes."""
    values = (getattr(state, name) for name in state.__struct_fields__)
    return [dict(value) if isinstance(value, dict) else value for value in values]


@contextmanager
def deep(state: State) -> Iterator[None]:
    """The whole state must be the same, to the last byte of its pickle, at the end of the block."""
    before = pickle.dumps(state)
    yield
    assert pickle.dumps(state) == before, "what is frozen in the state was changed"


def _number(nomination: str) -> int:
    return int(nomination.rpartition("n")[2] or 0)
