"""The reading of SQLite's write-ahead file, against SQLite itself: both must agree on what was committed."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.journal.wal import WalEnd, scan

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def make_image(folder: Path, page: int, writes: list[int], restarts: int) -> list[int]:
    """A database as a killed process leaves it, and the length of its write-ahead file after each transaction.

    Each write is one transaction of so many bytes. The first `restarts` of them are copied into the database, so
    that the file is begun anew over them and old frames stay behind.
    """
    live = folder / "live"
    live.mkdir()
    ends = []
    with closing(connect(live / "a.db")) as db:
        db.execute(f"PRAGMA page_size={page}")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("CREATE TABLE t (body BLOB)")
        for number, size in enumerate(writes):
            db.execute("INSERT INTO t VALUES (?)", (bytes(size),))
            if number < restarts:
                db.execute("PRAGMA wal_checkpoint(RESTART)")
            else:
                ends.append(scan(live / "a.db-wal").committed)
        shutil.copy(live / "a.db", folder / "a.db")
        shutil.copy(live / "a.db-wal", folder / "a.db-wal")
    return ends


def count_rows(folder: Path) -> int:
    """What SQLite itself makes of this image."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as copy:
        for name in ("a.db", "a.db-wal"):
            shutil.copy(folder / name, copy)
        with closing(connect(Path(copy) / "a.db")) as db:
            (rows,) = db.execute("SELECT count(*) FROM t").fetchone()
    return int(rows)


SIZES = st.lists(st.integers(0, 30_000), min_size=1, max_size=6)


@settings(max_examples=60)
@given(st.sampled_from([512, 4096, 65_536]), SIZES, SIZES, st.data())
def test_cut_anywhere_the_end_is_where_sqlite_finds_it(
    page: int, before: list[int], writes: list[int], data: st.DataObject
) -> None:
    """F01: an interrupted write may lose only itself, and all of its bytes are found."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        folder = Path(made)
        ends = make_image(folder, page, before + writes, restarts=len(before))
        wal = folder / "a.db-wal"
        # With old frames behind them the new ones end before the file does.
        assert scan(wal) == WalEnd(ends[-1], wal.stat().st_size, wal.stat().st_size, 0)
        assert count_rows(folder) == len(before + writes)
        cut = data.draw(st.integers(32, ends[-1]))
        with wal.open("r+b") as file:
            file.truncate(cut)
        kept = [end for end in ends if end <= cut]
        committed = kept[-1] if kept else 32
        assert scan(wal) == WalEnd(committed, committed, cut, 0)
        assert count_rows(folder) == len(before) + len(kept)


@settings(max_examples=60)
@given(SIZES, st.data())
def test_with_one_byte_altered_both_stop_at_the_same_transaction(
    writes: list[int], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        folder = Path(made)
        # Five more, so that at least five commits lie behind any damage that comes before them.
        ends = make_image(folder, 4096, [9, *writes, *[9] * 5], restarts=1)
        wal = folder / "a.db-wal"
        place = data.draw(st.integers(32, ends[-1] - 1))
        content = bytearray(wal.read_bytes())
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        wal.write_bytes(content)
        kept = [end for end in ends if end <= place]
        end = scan(wal)
        assert end.committed == (kept[-1] if kept else 32)
        assert count_rows(folder) == 1 + len(kept)
        if len(ends) - len(kept) > 2:
            assert end.commits_lost > 1


def test_an_absent_an_empty_and_an_unreadable_file(tmp_path: Path) -> None:
    wal = tmp_path / "a.db-wal"
    assert scan(wal) == WalEnd(0, 0, 0, 0)
    wal.write_bytes(b"")
    assert scan(wal) == WalEnd(0, 0, 0, 0)
    wal.write_bytes(b"half a header")
    assert scan(wal) == WalEnd(0, 0, 13, 0)
    wal.write_bytes(bytes(5000))
    assert scan(wal) == WalEnd(0, 0, 5000, 0)
