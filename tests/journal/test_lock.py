"""One run, one writer (F02)."""

import re
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palestra.events.runs import AlarmRaised
from palestra.journal.chain import check_chain, walk, write_rows
from palestra.journal.lock import FILE_NAME, Lock
from palestra.journal.sqlite import SqliteJournal
from palestra.rules.errors import Broken
from palestra.rules.units import Moment

Start = Callable[..., "subprocess.Popen[str]"]
RUN = "pocket"


def ask(child: "subprocess.Popen[str]", line: str) -> str:
    """Tell a child something; its answer."""
    assert child.stdin and child.stdout
    child.stdin.write(line + "\n")
    return child.stdout.readline().rstrip("\n")


def open_journal(child: "subprocess.Popen[str]") -> None:
    assert child.stdout and child.stdout.readline() == "ready\n"
    assert ask(child, "go") == "open"


def test_of_eight_processes_exactly_one_opens_the_journal(folder: Path, start: Start) -> None:
    """F02: the others get one sentence that names the run folder and who holds it."""
    children = [start("hold", folder) for _ in range(8)]
    for child in children:
        assert child.stdout and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
    answers = [child.stdout.readline().rstrip("\n") for child in children if child.stdout]
    (winner,) = [child for child, answer in zip(children, answers, strict=True) if answer == "open"]
    # A loser may come in the instant between the taking of the lock and the writing of who took it.
    sentence = re.compile(
        rf"refused {re.escape(str(folder))}: this run is being served by (process {winner.pid}|another process);"
        " a run has one writer, so stop that one first"
    )
    assert [bool(sentence.fullmatch(answer)) for answer in sorted(answers)] == [False, *[True] * 7]
    assert ask(winner, "3") == "head 3"
    winner.communicate()
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.head()[0] == 3


def test_eight_processes_in_line_write_4000_rows_without_a_gap(quick: Path, start: Start) -> None:
    """F02: 8 processes of 500 appends each, five turns each, so that their rows interleave."""
    children = [start("queue", quick, 500, 5) for _ in range(8)]
    for child in children:
        assert child.communicate()[0] == "done\n"
    with closing(SqliteJournal(quick, RUN)) as journal:
        rows = list(check_chain(walk(journal), RUN))
    assert [row.seq for row in rows] == list(range(1, 4001))
    assert sorted(row.actor for row in rows) == sorted(
        str(child.pid) for child in children for _ in range(500)
    )


def test_the_lock_goes_with_its_holder_however_that_ends(folder: Path, start: Start) -> None:
    child = start("hold", folder)
    open_journal(child)
    with pytest.raises(Broken, match=f"process {child.pid};"):
        SqliteJournal(folder, RUN)
    child.kill()
    child.wait()
    SqliteJournal(folder, RUN).close()


def test_a_second_journal_in_the_same_process_is_refused_too(folder: Path) -> None:
    with closing(SqliteJournal(folder, RUN)), pytest.raises(Broken, match="one writer"):
        SqliteJournal(folder, RUN)
    SqliteJournal(folder, RUN).close()


def test_started_programs_do_not_hold_the_lock(folder: Path) -> None:
    """Agents and jobs outlive the server; they must not keep the next one out."""
    lock = Lock(folder)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as outliving:
        lock.close()
        Lock(folder).close()
        assert outliving.poll() is None
        outliving.communicate()


def test_a_lock_file_removed_by_hand_lets_nobody_write_beside_the_writer(folder: Path, start: Start) -> None:
    """F02: two processes then hold two files of one name; the second to write is stopped by the stored head."""
    child = start("hold", folder)
    open_journal(child)
    assert ask(child, "2") == "head 2"
    (folder / FILE_NAME).unlink()
    with closing(SqliteJournal(folder, RUN)) as second:
        assert second.head()[0] == 2
        assert ask(child, "1") == "head 3"
        with pytest.raises(Broken, match="something else has written to it"):
            second.append(write_rows(second.head(), Moment(9), "B", [AlarmRaised("a", "b")]))
    assert ask(child, "1") == "head 4"


def test_a_run_folder_that_can_not_be_written_is_named(folder: Path) -> None:
    (folder / FILE_NAME).mkdir()
    with pytest.raises(Broken, match="lock: can't be opened: Is a directory"):
        SqliteJournal(folder, RUN)
