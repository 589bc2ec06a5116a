"""The end of the journal after an interrupted write (F01): set aside, reported, and nothing before it lost."""

import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palestra.events.codec import Row
from palestra.events.runs import AlarmRaised, TailRepaired
from palestra.journal.chain import check_chain, walk, write_rows
from palestra.journal.repair import TailFound
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.tail import Tail
from palestra.journal.wal import scan
from palestra.rules.errors import Corrupt
from palestra.rules.units import Bytes, Moment

Start = Callable[..., "subprocess.Popen[str]"]
RUN = "pocket"
HALF = b'{"alarm":"disk:9"'
assert len(HALF) == 17


def tell(child: "subprocess.Popen[str]", line: str) -> str:
    assert child.stdin and child.stdout
    child.stdin.write(line + "\n")
    return child.stdout.readline().rstrip("\n")


@pytest.fixture
def server(folder: Path, start: Start) -> "subprocess.Popen[str]":
    """A process that has the journal in `folder` open and has written 5 rows."""
    child = start("hold", folder)
    assert child.stdout and child.stdout.readline() == "ready\n"
    assert tell(child, "go") == "open"
    assert tell(child, "2") == "head 2"
    assert tell(child, "3") == "head 5"
    return child


def kill(child: "subprocess.Popen[str]") -> None:
    child.kill()
    child.wait()


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def append_one(journal: SqliteJournal) -> None:
    journal.append(
        write_rows(journal.head(), Moment(10**6), "house", [AlarmRaised("disk:new", "after the crash")])
    )


def read_all(journal: SqliteJournal) -> list[Row]:
    return list(check_chain(walk(journal), RUN))


def test_half_a_record_of_17_bytes_is_set_aside(folder: Path, server: "subprocess.Popen[str]") -> None:
    """F01: every earlier event and the new one read back, seq goes on, and one tail of 17 bytes is to be recorded."""
    kill(server)
    wal = folder / "journal.db-wal"
    whole = wal.stat().st_size
    add(wal, HALF)
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == (TailFound(Bytes(17), "journal.tail-1"),)
        assert (folder / "journal.tail-1").read_bytes() == HALF
        append_one(journal)
        assert [row.seq for row in read_all(journal)] == [1, 2, 3, 4, 5, 6]
        assert wal.stat().st_size > whole


@pytest.mark.parametrize("more", [1, 17, 23, 24, 25, 24 + 4095, 24 + 4096, 2 * (24 + 4096) + 99])
def test_a_half_written_frame_is_set_aside(folder: Path, server: "subprocess.Popen[str]", more: int) -> None:
    """F01: the write of 20 rows was interrupted after `more` bytes; none of them is there, all before them are."""
    wal = folder / "journal.db-wal"
    before = scan(wal).committed
    assert tell(server, "20") == "head 25"
    kill(server)
    assert scan(wal).committed > before + more
    with wal.open("r+b") as file:
        file.truncate(before + more)
    interrupted = wal.read_bytes()[before:]
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == (TailFound(Bytes(more), "journal.tail-1"),)
        assert (folder / "journal.tail-1").read_bytes() == interrupted
        append_one(journal)
        assert [row.seq for row in read_all(journal)] == [1, 2, 3, 4, 5, 6]


def test_a_kill_between_two_writes_leaves_nothing_to_repair(
    folder: Path, server: "subprocess.Popen[str]"
) -> None:
    kill(server)
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == ()
        assert journal.head()[0] == 5


def test_a_tail_is_reported_until_it_is_recorded(folder: Path, server: "subprocess.Popen[str]") -> None:
    """F01, and a second crash before the repair could be journalled: the repair is still recorded, once."""
    kill(server)
    add(folder / "journal.db-wal", HALF)
    SqliteJournal(folder, RUN).close()
    with closing(SqliteJournal(folder, RUN)) as journal:
        (tail,) = journal.tails
        journal.append(
            write_rows(journal.head(), Moment(9), "house", [TailRepaired(tail.size, tail.kept_as)])
        )
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == ()
        assert [row.kind for row in read_all(journal)].count("TailRepaired") == 1


def test_each_tail_keeps_its_own_name(folder: Path, server: "subprocess.Popen[str]") -> None:
    kill(server)
    wal = folder / "journal.db-wal"
    add(wal, HALF)
    (folder / "journal.tail-9").write_bytes(b"an older one")
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert [tail.kept_as for tail in journal.tails] == ["journal.tail-9", "journal.tail-10"]


def test_frames_of_an_earlier_round_are_no_tail(folder: Path, server: "subprocess.Popen[str]") -> None:
    """The write-ahead file was begun anew over 5 MB of old frames, which are still behind the new ones."""
    assert tell(server, "4500") == "head 4505"
    assert tell(server, "1") == "head 4506"
    wal = folder / "journal.db-wal"
    end = scan(wal)
    assert end.committed < 100_000 < 5_000_000 < wal.stat().st_size
    assert end.tail == end.tail_end
    kill(server)
    add(wal, HALF)
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == (TailFound(Bytes(17), "journal.tail-1"),)
        append_one(journal)
        assert len(read_all(journal)) == 4507


def test_a_reader_between_crash_and_restart_takes_nothing_away(
    folder: Path, server: "subprocess.Popen[str]"
) -> None:
    """F01: the last connection to close would fold the write-ahead file in and delete it, unless it may only read."""
    kill(server)
    add(folder / "journal.db-wal", HALF)
    tail = Tail(folder)
    assert len(list(tail.rows())) == 5
    tail.close()
    with closing(SqliteJournal(folder, RUN)) as journal:
        assert journal.tails == (TailFound(Bytes(17), "journal.tail-1"),)


def test_damage_before_acknowledged_rows_stops_the_run(folder: Path, server: "subprocess.Popen[str]") -> None:
    """More than an interrupted write is lost, so this is no repair; the folder is left as it was found."""
    wal = folder / "journal.db-wal"
    place = scan(wal).committed + 100
    for _ in range(3):
        assert tell(server, "1").startswith("head ")
    kill(server)
    content = bytearray(wal.read_bytes())
    content[place] ^= 1
    wal.write_bytes(content)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(Corrupt, match=r"damaged at byte \d+, and 3 later writes can no longer be read"):
        SqliteJournal(folder, RUN)
    assert wal.read_bytes() == content
    assert {path.name for path in folder.iterdir()} == before


def test_a_copy_of_the_folder_of_a_running_server_opens(
    folder: Path, server: "subprocess.Popen[str]"
) -> None:
    copy = folder / "copy"
    copy.mkdir()
    for name in ("journal.db", "journal.db-wal"):
        shutil.copy(folder / name, copy)
    with closing(SqliteJournal(copy, RUN)) as journal:
        assert journal.tails == ()
        append_one(journal)
        assert len(read_all(journal)) == 6
    assert tell(server, "1") == "head 6"
