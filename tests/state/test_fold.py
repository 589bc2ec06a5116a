"""Events into state: live equals replay, frozen stays frozen, contradictions stop everything, nothing reaches the world."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.building import RUN, START, Rehearsal
from tests.sealing import Reached, sealed
from tests.world import play_out

from palestra.events.base import Entry, Event
from palestra.events.codec import FORMAT, KINDS, Row, first_digest, read_entry, write_row
from palestra.events.corners import EntrantSeated, SessionEnded
from palestra.events.jobs import AttemptEnded, JobEnded
from palestra.events.nominations import NominationWithdrawn
from palestra.events.spend import CallCharged, CallReserved
from palestra.journal.chain import check_chain
from palestra.rules.errors import Corrupt
from palestra.rules.prices import Usage
from palestra.rules.units import GpuMicros, Moment, NanoDollars
from palestra.runtime.book import Book
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog


@pytest.fixture(scope="module")
def played() -> Rehearsal:
    """A competition from its start to its results."""
    run = Rehearsal()
    run.accept(run.nominate("A"))
    run.answer(run.reserve("B"), None)
    run.at = Moment(run.at + 60_000_000)
    run.exit(run.submit("A", gpus=2))
    run.submit("B", gpus=8)
    play_out(run, {"A": 700, "base": 200})
    return run


def read_again(rows: list[Row]) -> tuple[State, Catalog]:
    """Fold encoded rows, sealed off."""
    state, listed = State(), Catalog()
    with sealed():
        for row in check_chain(rows, RUN):
            entry = read_entry(row)
            assert fold.fold(state, entry) is state
            assert catalog.fold(listed, entry) is listed
    return state, listed


def test_replay_equals_live(played: Rehearsal) -> None:
    assert read_again(played.rows) == (played.state, played.book.catalog)


def test_settled_things_leave_the_state_and_stay_in_the_catalogue(played: Rehearsal) -> None:
    state = played.state
    assert not (state.calls or state.jobs or state.attempts or state.sessions)
    assert list(state.nominations) == ["A-n1"]
    assert {"A-j1", "B-j1"} < set(played.book.catalog.jobs)


def test_a_copy_for_a_dry_run_shares_nothing_that_changes(played: Rehearsal) -> None:
    before = msgspec.structs.asdict(played.state)
    twin = played.state.copy()
    assert twin == played.state
    for name in State.__struct_fields__:
        value = getattr(twin, name)
        if isinstance(value, dict):
            assert value is not getattr(played.state, name), name
            value.clear()
    assert msgspec.structs.asdict(played.state) == before


@pytest.mark.parametrize("cut", [1, 7, -1])
def test_a_missing_row_is_noticed(played: Rehearsal, cut: int) -> None:
    rows = [row for row in played.rows if row is not played.rows[cut]] if cut > 0 else played.rows[1:]
    with pytest.raises(Corrupt, match="row"):
        Book(RUN).load(rows)


def test_a_row_about_something_no_row_made_is_named() -> None:
    run = Rehearsal()
    ended = AttemptEnded(
        "A-j9.1", "A-j9", "A", "failed", "user_error", "", 1, None, None, GpuMicros(0)
    )  # fmt: skip
    row = write_row(run.book.digest, run.book.seq + 1, run.at, "world", None, None, ended)
    with pytest.raises(Corrupt, match=f"row {row.seq}: AttemptEnded is about 'A-j9.1'"):
        run.book.load([row])


def test_a_withdrawn_nomination_is_nobody_s_current() -> None:
    """A fact that folds can take, though no rule makes it yet."""
    run = Rehearsal()
    for weights in ("w1", "w2"):
        run.accept(run.nominate("A", weights))
    row = write_row(
        run.book.digest, run.book.seq + 1, run.at, "A", None, None, NominationWithdrawn("A-n2", "A")
    )
    run.book.load([row])
    assert (run.current("A"), run.state.nominations) == ("", {})
    card = run.book.catalog.nominations["A-n2"]
    assert (card.state, card.current) == ("withdrawn", False)


CONTRADICTIONS: list[tuple[Event, str]] = [
    (CallCharged("A-c9", "A", NanoDollars(1), Usage(), False, 200, "stop"), "call A-c9"),
    (SessionEnded("A-s9", "A", 0, "exited", False), "session A-s9"),
    (JobEnded("A-j9", "A", "failed", "user_error", 1), "job A-j9"),
    (
        CallReserved("A-c1", "A", "small", NanoDollars(10**12), 1, 1, None),
        "corner A: the api account would become",
    ),
]


@pytest.mark.parametrize(
    ("event", "said"), CONTRADICTIONS, ids=[type(event).__name__ for event, _ in CONTRADICTIONS]
)
def test_a_journal_that_contradicts_itself_stops_everything(event: Event, said: str) -> None:
    run = Rehearsal()
    with pytest.raises(Corrupt, match=said):
        fold.fold(run.state, Entry(run.book.seq + 1, run.at, "world", None, event))


def test_rows_say_which_release_can_t_read_them() -> None:
    row = write_row(
        first_digest(RUN),
        1,
        Moment(START),
        "rule",
        None,
        None,
        EntrantSeated("A", "n", "", "house", "small", NanoDollars(1), GpuMicros(1)),
    )
    for odd, said in (
        (msgspec.structs.replace(row, kind="Unheard"), "row 1: kind 'Unheard' is unknown"),
        (
            msgspec.structs.replace(row, version=2),
            "row 1: EntrantSeated has version 2, this release reads up to 1",
        ),
        (
            msgspec.structs.replace(row, body=b'{"corner":1}'),
            "row 1: the body of EntrantSeated can't be read",
        ),
    ):
        with pytest.raises(Corrupt, match=said):
            read_entry(odd)


def test_every_kind_of_event_is_in_the_past_tense_and_has_a_subject() -> None:
    assert FORMAT == "palestra-journal/1"
    for name, kind in KINDS.items():
        assert name.endswith(("ed", "Kept", "Frozen", "Withdrawn")), name
        assert not kind.SUBJECT or kind.SUBJECT in kind.__struct_fields__, name


def _open() -> None:
    Path("/etc/hostname").read_bytes()


def _import() -> None:
    import this  # noqa: F401


def _start() -> None:
    subprocess.run(["true"], check=True)


def _connect() -> None:
    socket.create_connection(("127.0.0.1", 9))


@pytest.mark.parametrize("reach", [_open, _import, _start, _connect])
def test_the_seal_that_rulings_and_folds_are_under_bites(reach: Callable[[], None]) -> None:
    """Files, imports, processes and sockets are all refused; `Rehearsal` rules and folds under nothing less."""
    with pytest.raises(Reached), sealed():
        reach()
