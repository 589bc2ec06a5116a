"""The follower: new rows page by page, from another process, without ever holding the writer's file back."""

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palestra.events.runs import AlarmRaised
from palestra.journal.chain import check_chain, write_rows
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.tail import Tail
from palestra.rules.errors import Broken
from palestra.rules.units import Moment

Start = Callable[..., "subprocess.Popen[str]"]
RUN = "pocket"


def append(journal: SqliteJournal, count: int, size: int = 10) -> None:
    events = [AlarmRaised(f"disk:{n}", "x" * size) for n in range(count)]
    journal.append(write_rows(journal.head(), Moment(10), "A", events))


def test_no_journal_yet_then_rows_then_more(folder: Path) -> None:
    with closing(Tail(folder, page=4)) as tail:
        assert list(tail.rows()) == []
        with closing(SqliteJournal(folder, RUN)) as journal:
            assert list(tail.rows()) == []
            append(journal, 10)
            assert list(tail.rows()) == journal.read()
            assert list(tail.rows()) == []
            append(journal, 3)
            assert [row.seq for row in tail.rows()] == [11, 12, 13]
        assert tail.after == 13
        assert list(tail.rows()) == []
    with closing(Tail(folder, after=9)) as tail:
        assert [row.seq for row in tail.rows()] == [10, 11, 12, 13]


def test_it_goes_on_where_it_stopped_in_the_middle_of_a_page(folder: Path) -> None:
    with closing(SqliteJournal(folder, RUN)) as journal, closing(Tail(folder, page=5)) as tail:
        append(journal, 12)
        for row in tail.rows():
            if row.seq == 3:
                break
        assert [row.seq for row in tail.rows()] == list(range(4, 13))
        tail.close()
        append(journal, 1)
        assert [row.seq for row in tail.rows()] == [13]


def test_another_processes_rows_are_seen_as_they_become_durable(folder: Path, start: Start) -> None:
    """And after a crash with an interrupted write (F01) the same follower goes on, with the file mended under it."""
    child = start("hold", folder)
    assert child.stdin and child.stdout
    child.stdout.readline()
    with closing(Tail(folder)) as tail:
        for line, answer in (("go", "open"), ("4", "head 4"), ("2", "head 6")):
            child.stdin.write(line + "\n")
            assert child.stdout.readline() == answer + "\n"
            list(tail.rows())
            assert tail.after == (int(answer.removeprefix("head ")) if "head" in answer else 0)
        child.kill()
        child.wait()
        with (folder / "journal.db-wal").open("ab") as wal:
            wal.write(b"half of a record.")
        with closing(SqliteJournal(folder, RUN)) as journal:
            assert [tail.size for tail in journal.tails] == [17]
            append(journal, 1)
            assert [row.seq for row in tail.rows()] == [7]


def test_a_follower_in_the_middle_of_a_page_does_not_make_the_write_ahead_file_grow(folder: Path) -> None:
    """A reader that kept its transaction open would pin the file, and it would grow with all that is written."""
    with closing(SqliteJournal(folder, RUN)) as journal, closing(Tail(folder, page=10)) as tail:
        append(journal, 100)
        rows = tail.rows()
        assert next(rows).seq == 1
        for _ in range(12):
            append(journal, 1000, size=2000)
        assert (
            (folder / "journal.db-wal").stat().st_size < 10_000_000 < (folder / "journal.db").stat().st_size
        )
        with closing(Tail(folder)) as other:
            seen = [row.seq for row in check_chain(other.rows(), RUN)]
        assert seen == list(range(1, 12_101))
        assert next(rows).seq == 2


def test_a_follower_refuses_a_newer_journal_and_changes_nothing(folder: Path) -> None:
    with closing(SqliteJournal(folder, RUN)) as journal:
        append(journal, 2)
    with closing(sqlite3.connect(folder / "journal.db")) as db:
        db.execute("PRAGMA user_version=7")
    with pytest.raises(Broken, match="newer release"):
        list(Tail(folder).rows())
