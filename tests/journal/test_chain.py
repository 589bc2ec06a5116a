"""The digest chain names the first row that doesn't follow, and the column that was most likely altered."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from palestra.events.codec import Row
from palestra.events.jobs import WaitChanged
from palestra.events.runs import AlarmRaised
from palestra.journal.chain import check_chain, write_rows
from palestra.journal.memory import MemoryJournal
from palestra.rules.errors import Corrupt
from palestra.rules.units import Moment

RUN = "pocket"


def make_rows() -> list[Row]:
    journal = MemoryJournal(RUN)
    for n in range(1, 9):
        event = WaitChanged(f"A-j{n}", "A", "memory", ()) if n % 2 else AlarmRaised(f"disk:{n}", "full")
        request = None if n == 3 else f"k{n}"
        cause = None if n < 2 else n - 1
        journal.append(write_rows(journal.head(), Moment(n * 10), "A", [event], cause=cause, request=request))
    return journal.read()


def alter(number: int, **columns: Any) -> list[Row]:
    return [msgspec.structs.replace(row, **columns) if row.seq == number else row for row in make_rows()]


def passed_before_stop(rows: list[Row]) -> tuple[int, str]:
    """(rows passed on, what was said at the first that wasn't)."""
    passed = 0
    with pytest.raises(Corrupt) as stop:
        for _ in check_chain(rows, RUN):
            passed += 1
    return passed, str(stop.value)


def test_a_whole_chain_passes_and_comes_out_as_it_went_in() -> None:
    assert list(check_chain(make_rows(), RUN)) == make_rows()
    assert list(check_chain([], RUN)) == []


@pytest.mark.parametrize(
    ("column", "number", "value"),
    [
        ("kind", 4, "AlarmCleared"),
        ("kind", 5, "NeverHeardOf"),
        ("version", 5, 2),
        ("subject", 5, "B-j5"),
        ("cause", 6, 2),
        ("cause", 6, None),
        ("cause", 1, 5),
        ("request", 3, "k3"),
        ("request", 3, ""),
        ("at", 5, 5),
        ("digest", 5, b"short"),
        ("body", 5, b'{"job":'),
    ],
)
def test_an_altered_column_is_named(column: str, number: int, value: object) -> None:
    passed, said = passed_before_stop(alter(number, **{column: value}))
    assert passed == number - 1
    assert said.startswith(f"row {number}, column {column}: ")


@pytest.mark.parametrize(
    ("column", "value"),
    [("actor", "B"), ("body", b'{"job":"A-j5","corner":"A","resource":"gpus","blockers":[]}'), ("at", 51)],
)
def test_where_it_could_be_any_of_several_they_are_all_named(column: str, value: object) -> None:
    passed, said = passed_before_stop(alter(5, **{column: value}))
    assert passed == 4
    assert said.startswith("row 5, column body, actor, at or digest: ")


def test_a_missing_a_doubled_and_a_moved_row_are_named_by_their_seq() -> None:
    rows = make_rows()
    assert passed_before_stop(rows[:3] + rows[4:]) == (3, "row 5, column seq: row 4 must come after row 3")
    assert passed_before_stop([rows[0], *rows]) == (1, "row 1, column seq: row 2 must come after row 1")
    assert passed_before_stop(rows[1:]) == (0, "row 2, column seq: row 1 must come after row 0")


def test_another_runs_journal_is_refused_at_row_1() -> None:
    with pytest.raises(Corrupt, match=r"^row 1, "):
        list(check_chain(make_rows(), "other"))


def test_rows_are_passed_on_one_by_one() -> None:
    """F03: recovery must stream. No row is asked for before the one before it was passed on."""
    asked = 0

    def source() -> Iterator[Row]:
        nonlocal asked
        for row in make_rows():
            asked += 1
            yield row

    for passed, _ in enumerate(check_chain(source(), RUN), start=1):
        assert asked == passed
