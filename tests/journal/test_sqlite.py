"""The journal's file: its layout, its version, what it refuses to open."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palestra.events.runs import AlarmRaised
from palestra.journal.chain import write_rows
from palestra.journal.sqlite import LAYOUT, SqliteJournal
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Moment

RUN = "pocket"


@pytest.fixture
def written(folder: Path) -> Path:
    """A run folder whose journal has 4 rows and is closed."""
    with closing(SqliteJournal(folder, RUN)) as journal:
        events = [AlarmRaised(f"disk:{n}", "full") for n in range(4)]
        journal.append(write_rows(journal.head(), Moment(7), "A", events, request="k"))
    return folder


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        db.execute(statement)


def test_the_file_is_one_strict_table_with_the_columns_of_a_row(written: Path) -> None:
    with closing(sqlite3.connect(written / "journal.db")) as db:
        tables = db.execute("SELECT name, strict, wr FROM pragma_table_list WHERE schema = 'main'").fetchall()
        assert ("journal", 1, 0) in tables and {name for name, *_ in tables} == {"journal", "sqlite_schema"}
        columns = db.execute(
            "SELECT name, type, \"notnull\", pk FROM pragma_table_info('journal')"
        ).fetchall()
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA user_version").fetchone() == (LAYOUT.version,)
    assert columns == [
        ("seq", "INTEGER", 0, 1),
        ("at", "INTEGER", 1, 0),
        ("kind", "TEXT", 1, 0),
        ("version", "INTEGER", 1, 0),
        ("subject", "TEXT", 1, 0),
        ("actor", "TEXT", 1, 0),
        ("cause", "INTEGER", 0, 0),
        ("request", "TEXT", 0, 0),
        ("body", "BLOB", 1, 0),
        ("digest", "BLOB", 1, 0),
    ]


def test_a_newer_releases_journal_is_refused(written: Path) -> None:
    change(written, "PRAGMA user_version=2")
    with pytest.raises(Broken, match="written by a newer release \\(format 2; this one knows up to 1\\)"):
        SqliteJournal(written, RUN)
    change(written, "PRAGMA user_version=1")
    SqliteJournal(written, RUN).close()


def test_another_programs_database_is_refused_and_left_alone(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "journal.db")) as db:
        db.execute("CREATE TABLE notes (line TEXT)")
    before = (folder / "journal.db").read_bytes()
    with pytest.raises(Broken, match="no journal of Palestra's"):
        SqliteJournal(folder, RUN)
    assert (folder / "journal.db").read_bytes() == before


def test_another_runs_journal_is_refused(written: Path) -> None:
    with pytest.raises(Corrupt, match="not the journal of run 'other', or altered: row 1"):
        SqliteJournal(written, "other")


def test_a_file_that_is_no_database_is_refused(folder: Path) -> None:
    (folder / "journal.db").write_text("seq,at,kind\n" * 500)
    with pytest.raises(Corrupt, match=r"journal\.db: file is not a database"):
        SqliteJournal(folder, RUN)


def test_a_missing_run_folder_is_named(folder: Path) -> None:
    with pytest.raises(Broken, match="nowhere: no such run folder"):
        SqliteJournal(folder / "nowhere", RUN)


@pytest.mark.parametrize(
    "spoil",
    [lambda f: change(f, "PRAGMA user_version=9"), lambda f: change(f, "DELETE FROM journal WHERE seq = 1")],
)
def test_after_a_refusal_the_run_folder_is_free(written: Path, spoil: Callable[[Path], None]) -> None:
    """What was opened on the way is let go of: the same sentence comes again, not `in use`."""
    spoil(written)
    said = []
    for _ in range(2):
        with pytest.raises((Broken, Corrupt)) as refusal:
            SqliteJournal(written, RUN)
        said.append(str(refusal.value))
    assert said[0] == said[1]


def test_a_crash_while_the_journal_was_made_is_made_good(folder: Path) -> None:
    """F01: an empty file, or one that is a database but has no table yet, becomes a journal."""
    (folder / "journal.db").write_bytes(b"")
    SqliteJournal(folder, RUN).close()
    (folder / "journal.db").unlink()
    change(folder, "PRAGMA journal_mode=WAL")
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.head()[0] == 0


def test_a_lock_held_by_another_tool_is_an_error_with_nothing_written(written: Path) -> None:
    """Someone holds a write transaction in an SQLite shell: the commit fails in time, and the writer stops."""
    with closing(SqliteJournal(written, RUN)) as journal:
        rows = write_rows(journal.head(), Moment(8), "A", [AlarmRaised("a", "b")])
        with closing(sqlite3.connect(written / "journal.db", isolation_level=None)) as shell:
            shell.execute("BEGIN IMMEDIATE")
            with pytest.raises(Broken, match="locked"):
                journal.append(rows)
        with pytest.raises(Broken, match="nothing is written after a failed commit"):
            journal.append(rows)
        assert len(journal.read()) == 4
    with closing(SqliteJournal(written, RUN)) as journal:
        journal.append(rows)
