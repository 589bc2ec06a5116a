"""The ledgers counted a second time: every planted wrong figure is found, at its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.building import Rehearsal, competition
from tests.world import play_out

from palestra.events.base import Entry, Event
from palestra.events.codec import read_entry
from palestra.events.corners import EntrantSeated
from palestra.events.jobs import AttemptEnded, AttemptStarted
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.referee.observations import CallUnused, ServerUp
from palestra.rules.errors import Corrupt
from palestra.rules.prices import Usage
from palestra.rules.units import HOUR, MINUTE, GpuMicros, Moment, NanoDollars
from palestra.runtime.audit import Audit
from palestra.state import fold
from palestra.state.arena import State

E = TypeVar("E", bound=Event)
USAGE = Usage(fresh_input=700, cached_input=300, output=500)


def season() -> Rehearsal:
    """Calls charged, estimated, released and left open by a dead server; jobs that ended, were lost and were stopped."""
    run = Rehearsal(competition(running=2 * HOUR))
    run.answer(run.reserve(), USAGE)
    run.answer(run.reserve("B"), None)
    run.tell(CallUnused(run.reserve(), "429", 429))
    run.reserve()
    run.exit(run.submit(gpus=2), ran=10 * MINUTE)
    run.exit(run.submit(), code=1, ran=None)
    run.submit("B", gpus=4)
    run.tell(ServerUp(2, "0"))
    run.accept(run.nominate())
    play_out(run, {"base": 200, "A": 500})
    return run


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    return [read_entry(row) for row in season().rows]


def audited(entries: list[Entry]) -> Audit:
    """Folded and checked row by row."""
    state, audit = State(), Audit()
    for entry in entries:
        fold.fold(state, entry)
        audit.check(entry, state)
    return audit


def test_an_honest_season_is_counted_again_and_agrees(entries: list[Entry]) -> None:
    audit = audited(entries)
    kinds = [type(entry.event) for entry in entries]
    counted = sum(kinds.count(kind) for kind in (CallReserved, CallCharged))
    counted += sum(
        isinstance(entry.event, AttemptStarted | AttemptEnded) and entry.event.corner != "house"
        for entry in entries
    )
    assert audit.charges == counted > 10


def planted(
    entries: list[Entry], kind: type[E], change: Callable[[E], dict[str, Any]], nth: int = 0
) -> tuple[list[Entry], int]:
    """The season with one event of it changed; and its row."""
    found = [
        entry
        for entry in entries
        if isinstance(entry.event, kind) and getattr(entry.event, "corner", "") != "house"
    ]
    row = found[nth].seq
    event = found[nth].event
    assert isinstance(event, kind)
    changed = replace(found[nth], event=replace(event, **change(event)))
    return [changed if entry.seq == row else entry for entry in entries], row


PLANTED: list[tuple[str, Any, Callable[[Any], dict[str, Any]], int]] = [
    ("a nano-dollar too much", CallCharged, lambda event: {"charge": NanoDollars(event.charge + 1)}, 0),
    ("a nano-dollar too little", CallCharged, lambda event: {"charge": NanoDollars(event.charge - 1)}, 0),
    ("an estimate below the hold", CallCharged, lambda event: {"charge": NanoDollars(event.charge // 2)}, 1),
    ("a usage that was never told", CallCharged, lambda event: {"usage": replace(event.usage, output=499)}, 0),
    ("cached tokens priced as fresh ones", CallCharged, lambda event: {"usage": Usage(fresh_input=1000, output=500)}, 0),
    ("a measured call called an estimate", CallCharged, lambda event: {"estimated": True}, 0),
    ("a hold too small for the worst case", CallReserved, lambda event: {"hold": NanoDollars(event.hold - 1)}, 0),
    ("a hold for another cap", CallReserved, lambda event: {"output_cap": event.output_cap + 1}, 0),
    ("one GPU forgotten in a hold", AttemptStarted, lambda event: {"hold": GpuMicros(event.hold // 2)}, 0),
    ("a limit longer than held for", AttemptStarted, lambda event: {"limit": event.limit + MINUTE}, 0),
    ("a GPU-microsecond too much", AttemptEnded, lambda event: {"charge": GpuMicros(event.charge + 1)}, 0),
    ("charged for the wish, not the use", AttemptEnded, lambda event: {"charge": GpuMicros(2 * HOUR)}, 0),
    ("other times than charged for", AttemptEnded, lambda event: {"ended": Moment(event.ended + 1)}, 0),
    ("a job without times that pays", AttemptEnded, lambda event: {"charge": GpuMicros(1)}, 1),
    ("the arena's own fault that pays", AttemptEnded, lambda event: {"cause": "infrastructure"}, 0),
    ("an allowance smaller than granted", EntrantSeated, lambda event: {"api_credit": NanoDollars(1)}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "kind", "change", "nth"), PLANTED, ids=[what for what, *_ in PLANTED])
def test_planted_wrong_figures_are_found(
    entries: list[Entry], what: str, kind: type[Event], change: Callable[[Event], dict[str, Any]], nth: int
) -> None:
    """F21 among them: each is found, and the sentence names the row."""
    wrong, row = planted(entries, kind, change, nth)
    with pytest.raises(Corrupt) as told:
        audited(wrong)
    said = str(told.value)
    if kind is not EntrantSeated:
        assert said.startswith(f"row {row}: "), said
    assert "None" not in said


def test_a_call_settled_twice_and_one_never_made(entries: list[Entry]) -> None:
    charged = next(entry for entry in entries if isinstance(entry.event, CallCharged))
    at = entries.index(charged) + 1
    with pytest.raises((Corrupt, KeyError)):
        audited([*entries[:at], charged, *entries[at:]])
    released = next(entry for entry in entries if isinstance(entry.event, CallReleased))
    with pytest.raises((Corrupt, KeyError)):
        audited([*entries[:6], released])


def test_the_fold_and_the_audit_are_two_counts() -> None:
    """The audit finds a fold that counts wrong: one that forgets a charge."""
    run = Rehearsal()
    audit, state = Audit(), State()
    run.answer(run.reserve(), USAGE)
    for row in run.rows:
        entry = read_entry(row)
        if isinstance(entry.event, CallCharged):
            entry = replace(entry, event=CallReleased(entry.event.call, "A", "x", 0))
        fold.fold(state, entry)
        if isinstance(read_entry(row).event, CallCharged):
            with pytest.raises(
                Corrupt,
                match=r"row \d+: the api account of corner A says .*, counted from the events it is \d+ spent",
            ):
                audit.check(read_entry(row), state)
        else:
            audit.check(read_entry(row), state)
