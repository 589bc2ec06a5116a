"""`palestra verify` on copies of a finished run in which one thing was changed: it says where it breaks, and never falls over."""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random

import msgspec
import pytest

from palestra.cli.main import run as command
from palestra.events.codec import Row, first_digest, read_entry, row_digest
from palestra.events.exams import ExamScored
from palestra.events.jobs import AttemptEnded
from palestra.events.runs import ReportFrozen
from palestra.events.spend import CallCharged
from palestra.journal.bodies import pack
from palestra.runtime.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1900)]

Change = Callable[[Row], Row | None]


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def read_rows(run: Path) -> list[Row]:
    with database(run / "journal.db") as journal:
        return [Row(*values) for values in journal.execute("SELECT * FROM journal ORDER BY seq")]


def rewrite(run: Path, change: Change, *, chain: bool) -> None:
    """Change or drop rows; with `chain`, number and digest all of them anew, as someone would who knows how."""
    rows = [changed for row in read_rows(run) if (changed := change(row)) is not None]
    if chain:
        digest, renewed = first_digest(RunFolder(run).read().run), []
        for seq, row in enumerate(rows, start=1):
            row = msgspec.structs.replace(row, seq=seq)
            digest = row_digest(digest, *msgspec.structs.astuple(row)[:-1])
            renewed.append(msgspec.structs.replace(row, digest=digest))
        rows = renewed
    with database(run / "journal.db") as journal:
        journal.execute("DELETE FROM journal")
        journal.executemany(
            f"INSERT INTO journal VALUES ({', '.join('?' * 10)})", map(msgspec.structs.astuple, rows)
        )


def change_one(kind: type, **fields: object) -> Change:
    """The first row of a kind, with other values in its event; an integer is added to what is there."""
    done: list[int] = []

    def change(row: Row) -> Row:
        if row.kind != kind.__name__ or done:
            return row
        done.append(row.seq)
        event = read_entry(row).event
        told = {name: getattr(event, name) + by if isinstance(by, int) else by for name, by in fields.items()}
        return msgspec.structs.replace(row, body=msgspec.json.encode(msgspec.structs.replace(event, **told)))

    return change


def drop_one(kind: type) -> Change:
    """Without the first row of a kind."""
    done: list[int] = []

    def change(row: Row) -> Row | None:
        if row.kind == kind.__name__ and not done:
            done.append(row.seq)
            return None
        return row

    return change


def seq_of(run: Path, kind: type) -> int:
    return next(row.seq for row in read_rows(run) if row.kind == kind.__name__)


def checked(run: Path) -> tuple[int, str, str]:
    """`palestra verify` in this process, where an error that it doesn't expect fails the test: exit code, out, err."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = command(["verify", str(run)])
    return code, out.getvalue(), err.getvalue()


def breaks(run: Path) -> str:
    """What `palestra verify` says is broken: exit code 1, and its own words."""
    code, said, complained = checked(run)
    assert code == 1, said + complained
    assert complained == "NOT ok: the record doesn't bear out what it says\n"
    broken = [line for line in said.splitlines() if line.startswith("BROKEN")]
    assert broken
    return "\n".join(broken)


def test_the_copy_itself_is_ok(copy: Path) -> None:
    assert checked(copy)[0] == 0


def test_one_byte_of_a_row(copy: Path) -> None:
    """F01: the row and the column are named."""
    seq = seq_of(copy, CallCharged)
    with database(copy / "journal.db") as journal:
        (body,) = journal.execute("SELECT body FROM journal WHERE seq = ?", (seq,)).fetchone()
        spoilt = bytes([*body[:-2], body[-2] ^ 1, body[-1]])
        journal.execute("UPDATE journal SET body = ? WHERE seq = ?", (spoilt, seq))
    assert f"row {seq}, column body" in breaks(copy)


@pytest.mark.parametrize(("kind", "amount"), [(CallCharged, "charge"), (AttemptEnded, "charge")])
def test_an_amount_in_a_row(copy: Path, kind: type, amount: str) -> None:
    """With the old digest the chain breaks there."""
    seq = seq_of(copy, kind)
    rewrite(copy, change_one(kind, **{amount: -1}), chain=False)
    assert f"row {seq}, column body" in breaks(copy)


@pytest.mark.parametrize(("kind", "amount"), [(CallCharged, "charge"), (AttemptEnded, "charge")])
def test_an_amount_in_a_row_with_all_digests_made_anew(copy: Path, kind: type, amount: str) -> None:
    """The chain is whole then, and the ledgers, counted again, are not."""
    seq = seq_of(copy, kind)
    rewrite(copy, change_one(kind, **{amount: -1}), chain=True)
    said = breaks(copy)
    assert f"row {seq}: {kind.__name__} says " in said
    assert "computed again it is" in said


def test_a_deleted_row(copy: Path) -> None:
    seq = seq_of(copy, CallCharged)
    rewrite(copy, drop_one(CallCharged), chain=False)
    assert f"row {seq + 1}, column seq: row {seq} must come after row {seq - 1}" in breaks(copy)


@pytest.mark.parametrize("kind", [CallCharged, AttemptEnded, ExamScored])
def test_a_deleted_row_with_all_digests_made_anew(copy: Path, kind: type) -> None:
    """Something is missing then: a hold that nobody settled, a place that is taken twice, a score of the scoreboard."""
    rewrite(copy, drop_one(kind), chain=True)
    breaks(copy)


def test_a_score_with_all_digests_made_anew(copy: Path) -> None:
    """The kept answers say otherwise, and so does the frozen scoreboard."""
    rewrite(copy, change_one(ExamScored, correct=1), chain=True)
    said = breaks(copy)
    assert ": recorded " in said
    assert "scoreboard: computed again" in said


def test_rows_in_another_order_with_all_digests_made_anew(copy: Path) -> None:
    """Whatever a fold makes of rows that no server wrote: a sentence, and exit 1."""
    rows = read_rows(copy)
    late = {row.seq: 0 if row.kind == "CallCharged" else 1 for row in rows}
    with database(copy / "journal.db") as journal:
        journal.execute("UPDATE journal SET seq = -seq")
        for seq, row in enumerate(sorted(rows, key=lambda row: (row.seq != 1, late[row.seq], row.seq)), 1):
            journal.execute("UPDATE journal SET seq = ?, at = ? WHERE seq = ?", (seq, rows[-1].at, -row.seq))
    rewrite(copy, lambda row: row, chain=True)
    assert "journal: row 2" in breaks(copy)


def test_rows_cut_off_at_the_end_are_missed_where_a_scoreboard_was_frozen(copy: Path) -> None:
    """A chain can't know what came after it, but the scoreboard that lies beside it says that there was more."""
    last = seq_of(copy, ExamScored)
    rewrite(copy, lambda row: row if row.seq < last else None, chain=False)
    assert "the journal's end is gone" in breaks(copy)


def test_a_scoreboard_that_no_row_tells_of_yet_is_accepted(copy: Path) -> None:
    """A server that is killed right after it wrote the file leaves it so; the next one puts it on the record."""
    last = seq_of(copy, ReportFrozen)
    rewrite(copy, lambda row: row if row.seq < last else None, chain=False)
    code, said, complained = checked(copy)
    assert (code, complained) == (0, ""), said
    assert "scoreboard: it is written" in said
    path = copy / "reports" / "scoreboard.json"
    path.write_bytes(path.read_bytes().replace(b'"rank": 1', b'"rank": 2'))
    assert "but no row tells of it" in breaks(copy)


def a_digest(run: Path, kind: type, field: str) -> str:
    row = next(row for row in read_rows(run) if row.kind == kind.__name__)
    return str(getattr(read_entry(row).event, field))


@pytest.mark.parametrize(("kind", "field"), [(CallCharged, "answered_body"), (ExamScored, "answers")])
def test_a_body(copy: Path, kind: type, field: str) -> None:
    """Another body under the old digest, well packed: what a model said, or what an exam was answered."""
    digest = a_digest(copy, kind, field)
    with database(copy / "record.db") as record:
        record.execute("UPDATE blobs SET zstd = ? WHERE digest = ?", (pack(b"[]"), digest))
    said = breaks(copy)
    assert f"names {digest}" in said
    assert "the kept bytes have another digest" in said


def test_a_body_that_cant_be_unpacked(copy: Path) -> None:
    digest = a_digest(copy, CallCharged, "asked_body")
    with database(copy / "record.db") as record:
        record.execute("UPDATE blobs SET zstd = x'00ff' WHERE digest = ?", (digest,))
    assert "can't be unpacked" in breaks(copy)


def test_a_body_that_is_gone(copy: Path) -> None:
    digest = a_digest(copy, ExamScored, "answers")
    with database(copy / "record.db") as record:
        record.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
    assert f"names {digest}, which isn't on the record" in breaks(copy)


def test_a_body_that_was_erased_is_told_as_long_as_no_row_says_so(copy: Path) -> None:
    """Erasing is no event yet, so it can't be told from a loss."""
    digest = a_digest(copy, ExamScored, "answers")
    with database(copy / "record.db") as record:
        record.execute("UPDATE blobs SET zstd = x'' WHERE digest = ?", (digest,))
    assert f"names {digest}, which isn't on the record" in breaks(copy)


def test_answers_made_better_with_everything_made_anew(copy: Path) -> None:
    """Body, digest in the row and chain all agree; the score, computed again from those answers, doesn't."""
    digest = a_digest(copy, ExamScored, "answers")
    better = b"[]"
    name = "sha256:" + hashlib.sha256(better).hexdigest()
    with database(copy / "record.db") as record:
        record.execute("INSERT INTO blobs VALUES (?, ?)", (name, pack(better)))
        record.execute("DELETE FROM blobs WHERE digest = ?", (digest,))
    rewrite(copy, change_one(ExamScored, answers=name), chain=True)
    assert "scored again 0 of" in breaks(copy)


@pytest.mark.parametrize(
    "change", ["DELETE FROM steps WHERE n = 3", "UPDATE steps SET call = 'A-c99' WHERE n = 3"]
)
def test_a_step(copy: Path, change: str) -> None:
    with database(copy / "record.db") as record:
        record.execute(change)
    assert re.search(r"row \d+ names step 3 of [A-Z]-c\d+, which isn't on the record", breaks(copy))


@pytest.mark.parametrize("name", ["exam.py", "competition.toml", "terms.md"])
def test_a_file_of_the_competition(copy: Path, name: str) -> None:
    with (copy / "competition" / name).open("a") as file:
        file.write("# changed\n")
    assert f"files: {copy / 'competition' / name} isn't the file that the run opened with" in breaks(copy)


def test_an_exam_program_that_is_gone(copy: Path) -> None:
    (copy / "competition" / "exam.py").unlink()
    assert "files: " in breaks(copy)


def test_the_scoreboards_file(copy: Path) -> None:
    path = copy / "reports" / "scoreboard.json"
    path.write_bytes(path.read_bytes().replace(b'"rank": 1', b'"rank": 2'))
    assert f"scoreboard: {path} isn't the scoreboard that was frozen" in breaks(copy)


def test_a_record_that_is_gone(copy: Path) -> None:
    for path in copy.glob("record.db*"):
        path.unlink()
    assert "there is no record yet" in breaks(copy)


def test_another_runs_name(copy: Path) -> None:
    path = copy / "run.toml"
    path.write_text(path.read_text().replace(f'"{RunFolder(copy).read().run}"', '"another-00000000"'))
    assert "row 1" in breaks(copy)


@pytest.mark.parametrize("seed", range(12))
def test_one_byte_anywhere_in_the_databases_never_makes_it_fall_over(copy: Path, seed: int) -> None:
    """F02: damage below the rows is found, or does no harm as it lies where nothing is kept."""
    chance = Random(seed)
    path = copy / ("journal.db", "record.db")[seed % 2]
    with database(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    code, said, _ = checked(copy)
    assert code == (1 if "BROKEN" in said else 0), said
