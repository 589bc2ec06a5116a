"""The record's files: where bodies lie, that erasing leaves no bytes, that damage is found, that readers only read."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from palestra.journal.bodies import LARGEST_INLINE, digest_of
from palestra.journal.record import RecordReader, SqliteRecord
from palestra.ports import StepRow
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Digest, Moment

LONG = bytes(range(256)) * (LARGEST_INLINE // 256) + b"one more"


def file_of(folder: Path, digest: Digest) -> Path:
    name = digest.removeprefix("sha256:")
    return folder / "blobs" / name[:2] / f"{name}.zst"


def test_the_database_has_the_two_tables_and_is_there_after_closing(folder: Path) -> None:
    with closing(SqliteRecord(folder)) as record:
        digest = record.put(b"kept")
        record.keep([], [StepRow("A", 1, "A-c1", "user", digest, Moment(5))])
    with closing(sqlite3.connect(folder / "record.db")) as db:
        columns = db.execute("SELECT name FROM pragma_table_info('blobs')").fetchall()
        assert columns == [("digest",), ("zstd",)]
        columns = db.execute("SELECT name FROM pragma_table_info('steps')").fetchall()
        assert [name for (name,) in columns] == ["corner", "n", "call", "role", "digest", "at"]
        assert zstandard.decompress(db.execute("SELECT zstd FROM blobs").fetchone()[0]) == b"kept"
    with closing(SqliteRecord(folder)) as record:
        assert record.open(digest) == b"kept"
        assert record.steps("A") == [StepRow("A", 1, "A-c1", "user", digest, Moment(5))]


def test_bodies_over_a_mebibyte_are_files(folder: Path) -> None:
    with closing(SqliteRecord(folder)) as record:
        long, short = record.put(LONG), record.put(LONG[:LARGEST_INLINE])
        assert zstandard.ZstdDecompressor().decompress(file_of(folder, long).read_bytes()) == LONG
        assert not file_of(folder, short).exists()
        assert [path.name for path in (folder / "blobs").rglob("*.part")] == []
        record.erase(long)
        assert not file_of(folder, long).exists()


def test_nothing_of_an_erased_body_is_left_in_the_files(folder: Path) -> None:
    secret = bytes(n * 37 % 256 for n in range(3000))  # doesn't compress, so its bytes lie as they are
    with closing(SqliteRecord(folder)) as record:
        digest = record.put(secret)
        for n in range(200):
            record.put(b"filler %d" % n)
        assert any(secret[:256] in path.read_bytes() for path in folder.glob("record.db*"))
        record.erase(digest)
        for path in folder.glob("record.db*"):
            content = path.read_bytes()
            assert not any(secret[n : n + 64] in content for n in range(0, 2900, 64))
    with closing(SqliteRecord(folder)) as record:
        assert record.erased(digest)


def test_a_reader_in_the_way_of_erasing_is_named_and_the_next_try_finishes(folder: Path) -> None:
    with closing(SqliteRecord(folder)) as record:
        digest = record.put(b"secret")
        with closing(sqlite3.connect(folder / "record.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM blobs").fetchall()
            with pytest.raises(Broken, match="erase it again"):
                record.erase(digest)
        with pytest.raises(KeyError):
            record.open(digest)
        record.erase(digest)
        assert (folder / "record.db-wal").stat().st_size == 0


def test_damage_is_found_when_a_body_is_read(folder: Path) -> None:
    with closing(SqliteRecord(folder)) as record:
        short, long = record.put(b"short" * 100), record.put(LONG)
        with closing(sqlite3.connect(folder / "record.db")) as db, db:
            db.execute("UPDATE blobs SET zstd = ? WHERE digest = ?", (zstandard.compress(b"altered"), short))
        with pytest.raises(Corrupt, match=f"{short}: the kept bytes have another digest"):
            record.open(short)
        file_of(folder, long).write_bytes(b"no zstd")
        with pytest.raises(Corrupt, match="can't be unpacked"):
            record.open(long)
        file_of(folder, long).unlink()
        with pytest.raises(Corrupt, match="is gone, and it was never erased"):
            record.open(long)


def test_a_reader_sees_what_is_durable_and_can_not_write(folder: Path) -> None:
    with pytest.raises(Broken, match="no record yet"):
        RecordReader(folder)
    with closing(SqliteRecord(folder)) as record, closing(RecordReader(folder)) as reader:
        digest = record.put(b"body")
        assert reader.open(digest) == b"body"
        assert reader.steps("A") == []
        record.erase(digest)
        assert reader.erased(digest)
    with closing(RecordReader(folder)) as reader:
        assert reader.erased(digest)


def test_an_unreadable_body_keeps_nothing_of_the_group(folder: Path) -> None:
    with closing(SqliteRecord(folder)) as record:
        with pytest.raises(Broken, match="nowhere"):
            record.keep(
                [b"one", folder / "nowhere"], [StepRow("A", 1, "A-c1", "user", Digest("d"), Moment(5))]
            )
        assert record.steps("A") == []
        with pytest.raises(KeyError):
            record.open(digest_of(b"one"))
