"""Golden journals: recorded once, they fold to the same scoreboard for ever, whatever the code has become."""

from __future__ import annotations

import pytest
from tests.building import RUN, START, Rehearsal
from tests.journals.accept import board, journal
from tests.journals.lines import FOLDER, read_lines, write_lines
from tests.sealing import sealed
from tests.stateful.shadow import Shadow
from tests.world import play_out

from palestra.events.codec import KINDS, read_entry
from palestra.journal.chain import check_chain
from palestra.report.scoreboard import board_bytes, scoreboard
from palestra.rules.errors import Corrupt
from palestra.rules.units import MINUTE
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog

RECORDED = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
NOT_YET = {"NominationWithdrawn"}
"""Kinds that no rule makes so far."""


def read(name: str) -> tuple[State, Catalog]:
    """Fold a golden journal, its chain checked, sealed off from the world."""
    rows = read_lines(journal(name).read_bytes())
    state, listed = State(), Catalog()
    with sealed():
        for row in check_chain(rows, RUN):
            entry = read_entry(row)
            fold.fold(state, entry)
            catalog.fold(listed, entry)
    return state, listed


@pytest.mark.parametrize("name", RECORDED)
def test_a_golden_journal_folds_to_its_scoreboard(name: str) -> None:
    assert board_bytes(*read(name)) == board(name).read_bytes()


@pytest.mark.parametrize("name", RECORDED)
def test_a_golden_journal_holds_what_must_hold_after_every_row(name: str) -> None:
    Shadow().take(read_lines(journal(name).read_bytes()))


@pytest.mark.parametrize("name", RECORDED)
def test_rows_come_back_to_the_byte(name: str) -> None:
    data = journal(name).read_bytes()
    assert write_lines(read_lines(data)) == data


def test_one_changed_byte_is_noticed() -> None:
    rows = read_lines(journal("complete").read_bytes().replace(b"SFT on the pool", b"SFT on the poll"))
    with pytest.raises(Corrupt, match="column body"):
        list(check_chain(rows, RUN))


def test_every_kind_of_event_is_in_a_golden_journal() -> None:
    seen = {row.kind for name in RECORDED for row in read_lines(journal(name).read_bytes())}
    assert set(KINDS) - seen == NOT_YET


def test_the_complete_competition_ended_as_it_did() -> None:
    """By name and figure, so that the golden file itself can't be wrong unnoticed."""
    result = scoreboard(*read("complete"))
    assert result.stage == "results"
    assert [(line.corner, line.name, line.rank, line.kind) for line in result.lines] == [
        ("A", "Owl", 1, "lora"),
        ("B", "Agent Two", 2, "full"),
    ]
    assert [line.api_spent for line in result.lines] == [500 * 1_000 + 2_000 * 100 + 321 * 4_000] * 2
    assert [line.gpu_spent for line in result.lines] == [6 * 30 * MINUTE, 4 * 20 * MINUTE + 6 * MINUTE]


def test_the_troubled_competition_ended_as_it_did() -> None:
    """S60: the larger copy that came late isn't current. Preempted time is free. The server's death cost A its call's ceiling."""
    state, listed = read("troubled")
    result = scoreboard(state, listed)
    first, second = result.lines
    assert (first.current, first.kind, first.rank) == ("A-n2", "lora", 1)
    assert (second.score, second.rank, second.unscored_because) == (None, None, "not_served")
    assert first.api_spent == 20_000 * 1_250 + 5_000 * 4_000
    assert first.gpu_spent == 2 * 35 * MINUTE
    assert [(end or 0) - begin for begin, end in state.clock.pauses] == [30 * MINUTE, 30 * MINUTE]
    assert listed.stages["closing"] - START == 130 * MINUTE


def test_killed_between_any_two_rulings_a_run_still_comes_to_its_results() -> None:
    """Rows of one ruling share a transaction, so these are all the places where a journal can end; the rest is played on."""
    rows = read_lines(journal("complete").read_bytes())
    cuts = [row.seq - 1 for row in rows if row.cause is None and row.seq > 1]
    assert len(cuts) > 30
    for cut in cuts:
        run = Rehearsal()
        run.at = rows[cut - 1].at
        run.restart(rows[:cut])
        if run.stage() == "results":
            continue
        play_out(run, {"A": 612, "B": 608, "base": 271})
        assert run.stage() == "results", f"killed after row {cut}"
        for seat in run.state.corners.values():
            assert list(run.state.nominations).count(seat.current) == bool(seat.current)
        Shadow().take(run.rows)
