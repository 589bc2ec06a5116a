"""What every record must do with bodies and steps: the same suite over the one in memory and the one on disk."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from palestra.journal.bodies import LARGEST_INLINE, digest_of
from palestra.journal.memory import MemoryRecord
from palestra.journal.record import Record, SqliteRecord
from palestra.ports import StepRow
from palestra.rules.errors import Broken
from palestra.rules.units import Digest, Moment

UNKNOWN = Digest("sha256:" + "0" * 64)
SIZES = [0, 1, 5_000, LARGEST_INLINE, LARGEST_INLINE + 1, 3 * LARGEST_INLINE + 17]


@pytest.fixture(params=["memory", "sqlite"])
def record(request: pytest.FixtureRequest) -> Iterator[Record]:
    if request.param == "memory":
        yield MemoryRecord()
        return
    with tempfile.TemporaryDirectory() as folder, closing(SqliteRecord(Path(folder))) as made:
        yield made


def body_of(size: int) -> bytes:
    return bytes(n * n % 251 for n in range(256)) * (size // 256) + b"x" * (size % 256)


def step(n: int, role: str = "assistant", corner: str = "A") -> StepRow:
    return StepRow(corner, n, f"{corner}-c{n}", role, UNKNOWN, Moment(n))


@pytest.mark.parametrize("size", SIZES)
def test_a_body_comes_back_by_its_sha256(record: Record, size: int) -> None:
    body = body_of(size)
    digest = record.put(body)
    assert digest == digest_of(body)
    assert digest.startswith("sha256:") and len(digest) == 71
    assert record.open(digest) == body
    assert record.put(body) == digest
    assert record.open(digest) == body


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_kept_like_bytes(record: Record, size: int, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(body_of(size))
    digest = record.put(path)
    path.unlink()
    assert digest == digest_of(body_of(size))
    assert record.open(digest) == body_of(size)


def test_a_file_that_is_not_there_is_named(record: Record, tmp_path: Path) -> None:
    with pytest.raises(Broken, match="nowhere"):
        record.put(tmp_path / "nowhere")


def test_an_unknown_body_is_a_key_error(record: Record) -> None:
    with pytest.raises(KeyError):
        record.open(UNKNOWN)
    with pytest.raises(KeyError):
        record.erase(UNKNOWN)
    assert not record.erased(UNKNOWN)


@pytest.mark.parametrize("size", [9, LARGEST_INLINE + 1])
def test_an_erased_body_stays_erased(record: Record, size: int) -> None:
    digest = record.put(body_of(size))
    assert not record.erased(digest)
    record.erase(digest)
    record.erase(digest)
    record.put(body_of(size))
    assert record.erased(digest)
    with pytest.raises(KeyError):
        record.open(digest)


def test_steps_come_back_by_corner_in_order(record: Record) -> None:
    record.keep([b"one", b"two"], [step(2), step(1), step(1, corner="B")])
    record.keep([], [step(3)])
    assert record.steps("A") == [step(1), step(2), step(3)]
    assert record.steps("A", after=1, limit=1) == [step(2)]
    assert record.steps("B") == [step(1, corner="B")]
    assert record.steps("C") == []
    assert record.open(digest_of(b"two")) == b"two"


def test_a_step_number_given_out_again_after_a_crash_replaces_its_leftover(record: Record) -> None:
    record.keep([], [step(1), step(2, role="assistant")])
    record.keep([], [step(2, role="user")])
    assert record.steps("A") == [step(1), step(2, role="user")]
