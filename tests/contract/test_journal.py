"""What every journal must do: the same suite over the one in memory and the one on disk."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.events.base import Event
from palestra.events.codec import Row, first_digest
from palestra.events.jobs import WaitChanged
from palestra.events.runs import AlarmRaised
from palestra.journal.chain import check_chain, walk, write_rows
from palestra.journal.filesystem import refuse_unfit
from palestra.journal.memory import MemoryJournal
from palestra.journal.sqlite import SqliteJournal
from palestra.ports import Journal
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Moment

RUN = "pocket"
AT = Moment(1_700_000_000_000_000)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal(RUN)
        return
    with (
        tempfile.TemporaryDirectory(dir=fit_folder()) as folder,
        closing(SqliteJournal(Path(folder), RUN)) as made,
    ):
        yield made


def fit_folder() -> Path | None:
    """None, the usual place, unless a journal can't lie there."""
    try:
        refuse_unfit(Path(tempfile.gettempdir()))
    except Broken:
        return Path("/dev/shm")
    return None


def alarms(count: int) -> list[Event]:
    return [AlarmRaised(f"disk:{n}", "filling up") for n in range(count)]


def test_an_empty_journal_begins_with_the_runs_digest(journal: Journal) -> None:
    assert journal.head() == (0, first_digest(RUN))
    assert journal.read() == []


def test_rows_come_back_exactly_and_in_order(journal: Journal) -> None:
    first = write_rows(journal.head(), AT, "house", alarms(2), request="k1")
    journal.append(first)
    second = write_rows(
        journal.head(), AT, "A", [WaitChanged("A-j1", "A", "memory", ("B-j2", "B-j3"))], cause=2
    )
    journal.append(second)
    assert journal.read() == first + second
    assert journal.head() == (3, second[0].digest)


def test_reading_goes_by_pages(journal: Journal) -> None:
    rows = write_rows(journal.head(), AT, "house", alarms(25))
    journal.append(rows)
    assert journal.read(10, 5) == rows[10:15]
    assert journal.read(23, 5) == rows[23:]
    assert journal.read(25) == []
    assert journal.read(99) == []
    assert list(walk(journal, after=3, page=4)) == rows[3:]
    assert list(check_chain(walk(journal), RUN)) == rows


def test_nothing_to_append_changes_nothing(journal: Journal) -> None:
    journal.append([])
    assert journal.head() == (0, first_digest(RUN))


def with_gap(rows: list[Row]) -> list[Row]:
    return [rows[0], rows[2]]


def again(rows: list[Row]) -> list[Row]:
    return [rows[0], rows[0]]


def altered(rows: list[Row]) -> list[Row]:
    return [rows[0], msgspec.structs.replace(rows[1], actor="B"), rows[2]]


def earlier(rows: list[Row]) -> list[Row]:
    return [rows[0], *write_rows((rows[0].seq, rows[0].digest), Moment(AT - 1), "A", alarms(1))]


@pytest.mark.parametrize("spoil", [with_gap, again, altered, earlier])
def test_rows_that_do_not_follow_the_head_are_refused_whole(
    journal: Journal, spoil: Callable[[list[Row]], list[Row]]
) -> None:
    kept = write_rows(journal.head(), AT, "A", alarms(2))
    journal.append(kept)
    head = journal.head()
    rows = write_rows(head, AT, "A", alarms(3))
    with pytest.raises(Corrupt, match=r"^row \d+, column "):
        journal.append(spoil(rows))
    assert (journal.head(), journal.read()) == (head, kept)
    journal.append(rows)
    assert journal.read() == kept + rows


def test_another_runs_rows_are_refused(journal: Journal) -> None:
    with pytest.raises(Corrupt, match="row 1, column"):
        journal.append(write_rows(MemoryJournal("other").head(), AT, "A", alarms(1)))
    assert journal.read() == []


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(st.lists(st.tuples(TEXT, TEXT, st.none() | TEXT, st.integers(0, 1 << 50)), max_size=8))
def test_any_text_comes_back_as_it_was_written(lines: list[tuple[str, str, str | None, int]]) -> None:
    """Text is byte-exact, with NUL, line ends, direction marks and all."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        at = AT
        with closing(SqliteJournal(Path(folder), RUN)) as sqlite:
            memory = MemoryJournal(RUN)
            for actor, text, request, step in lines:
                at = Moment(at + step)
                rows = write_rows(memory.head(), at, actor, [AlarmRaised(text, text)], request=request)
                memory.append(rows)
                sqlite.append(rows)
        with closing(SqliteJournal(Path(folder), RUN)) as sqlite:
            assert sqlite.read() == memory.read()
            assert sqlite.head() == memory.head()
