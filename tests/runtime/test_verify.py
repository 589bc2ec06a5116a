"""`verify` on whole runs on disk: ok where all agrees, and a sentence with the row or the thing for every planted break."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.building import spec
from tests.runtime.opening import AT, opened, write_competition
from tests.world import next_fact

from palestra.events.codec import Row, first_digest, read_entry, row_digest
from palestra.events.nominations import AnswerSettings
from palestra.events.runs import ReportFrozen
from palestra.events.spend import CallCharged
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.ports import Answer
from palestra.referee.observations import (
    CallAnswered,
    DocumentFrozen,
    ExamGraded,
    Observation,
    QuestionsMade,
)
from palestra.referee.requests import EndRun, Nominate, Receipt, Request, ReserveCall, SubmitJob
from palestra.report.scoreboard import board_bytes
from palestra.rules.manifest import Facts, Manifest, ManifestFile, artifact_digest, identity_bytes
from palestra.rules.prices import Usage
from palestra.rules.units import MINUTE, Bytes, Digest, Moment
from palestra.runtime.book import Book
from palestra.runtime.compare import SCOREBOARD
from palestra.runtime.examiner import ExamProgram
from palestra.runtime.folder import RunFolder
from palestra.runtime.opening import SEED
from palestra.runtime.verify import verify

RUN = "small-1"
WEIGHTS = Manifest(Facts(), (ManifestFile(9, "model.safetensors", "0" * 64),), "palestra-manifest/1")


class Season:
    """A run written to disk as a server would have, to its results."""

    def __init__(self, path: Path) -> None:
        made = opened(path, write_competition(path))
        self.folder = made.folder
        self.book, self.at = Book(RUN), AT
        self.book.load(made.rows)
        self.rows = list(made.rows)
        self.journal = SqliteJournal(self.folder.path, RUN)
        self.record = SqliteRecord(self.folder.path)
        for name in ("competition.toml", "terms.md", "exam.py"):
            self.record.put((self.folder.competition / name).read_bytes())

    def play(self) -> None:
        """A call, a job with a script, a nomination, the exam of two models, and the scoreboard."""
        asked = self.ask(ReserveCall("A", None, "small", 1_000, 100))
        said = [self.record.put(b"asked"), self.record.put(b"answered")]
        self.tell(
            CallAnswered(asked, Usage(fresh_input=700, output=40), 200, "stop", False, said[0], said[1])
        )
        script = self.record.put(b"#!/bin/sh\n")
        job = spec(memory=1 << 20, limit=MINUTE)
        self.ask(SubmitJob("A", None, msgspec.structs.replace(job, script=script)))
        self.record.put(identity_bytes(WEIGHTS))
        self.ask(Nominate("A", None, artifact_digest(WEIGHTS), "out", Bytes(9), AnswerSettings()))
        self.settle()
        self.ask(EndRun("organiser:x", None, ""))
        self.settle()
        exam = ExamProgram(self.folder.competition / "exam.py", [])
        seed = self.folder.read_secret(SEED).decode()
        questions = exam.questions(seed, 3)
        self.tell(QuestionsMade(seed, self.record.put(msgspec.json.encode(questions)), 3))
        for name in list(self.book.state.exams):
            self.settle()
            answers = [Answer(one.id, "yes" if name == "x2" else "no", "stop") for one in questions]
            score = exam.score(seed, 3, answers)
            self.tell(ExamGraded(name, score.correct, 3, self.record.put(msgspec.json.encode(answers))))
        assert self.book.state.clock.stage == "results"
        upto, board = self.book.state.seq, board_bytes(self.book.state, self.book.catalog)
        (self.folder.reports / "scoreboard.json").write_bytes(board)
        self.tell(DocumentFrozen(SCOREBOARD, self.record.put(board), upto))

    def ask(self, request: Request) -> str:
        self.at = Moment(self.at + 1_000_000)
        outcome = self.book.ask(request, self.at)
        self.rows += outcome.rows
        assert isinstance(outcome.answer, Receipt), outcome.answer
        return outcome.answer.id

    def tell(self, observation: Observation) -> None:
        self.at = Moment(self.at + 1_000_000)
        self.rows += self.book.tell(observation, self.at)

    def settle(self) -> None:
        while (fact := next_fact(self.book.state, self.at)) is not None:
            self.tell(fact)

    def close(self) -> None:
        self.journal.append(self.rows)
        self.journal.close()
        self.record.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One season's folder, which every test copies."""
    season = Season(tmp_path_factory.mktemp("season"))
    season.play()
    season.close()
    return season.folder.path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(whole, tmp_path / "run", symlinks=True)
    return RunFolder(tmp_path / "run")


def found(folder: RunFolder) -> dict[str, str]:
    """What is wrong, by check; nothing where all is ok."""
    return {check.name: check.found for check in verify(folder) if not check.ok}


def change(folder: RunFolder, statement: str, *values: object, file: str = "journal.db") -> None:
    with sqlite3.connect(folder.path / file) as base:
        assert base.execute(statement, values).rowcount > 0
    base.close()


def rewrite(folder: RunFolder, edit: Callable[[Row], Row]) -> None:
    """A forger who knows the format: rows changed, and every digest after them made anew."""
    with sqlite3.connect(folder.path / "journal.db") as base:
        rows = [Row(*values) for values in base.execute("SELECT * FROM journal ORDER BY seq").fetchall()]
        previous = first_digest(RUN)
        for row in map(edit, rows):
            previous = row_digest(
                previous,
                row.seq,
                row.at,
                row.kind,
                row.version,
                row.subject,
                row.actor,
                row.cause,
                row.request,
                row.body,
            )
            base.execute(
                "UPDATE journal SET body = ?, digest = ? WHERE seq = ?", (row.body, previous, row.seq)
            )
    base.close()


def test_an_honest_run_is_ok_in_every_check(folder: RunFolder) -> None:
    checks = list(verify(folder))
    assert all(check.ok for check in checks), checks
    names = ["chain", "ledgers", "bodies", "steps", "files", "score of base", "score of A-n1", "scoreboard"]
    assert [check.name for check in checks] == names
    said = {check.name: check.found for check in checks}
    assert said["score of base"] == "0 of 3, scored again from the kept answers"
    assert said["score of A-n1"] == "3 of 3, scored again from the kept answers"
    assert "computed again from" in said["scoreboard"]


def test_a_run_that_isnt_over_is_ok_so_far(tmp_path: Path) -> None:
    season = Season(tmp_path)
    season.close()
    checks = list(verify(season.folder))
    assert all(check.ok for check in checks)
    assert checks[-1].found == "none is frozen yet; the stage is running"


@pytest.mark.parametrize(
    "column",
    [
        "at = at + 1",
        "body = x'7b7d'",
        "actor = 'x'",
        "subject = 'x'",
        "cause = 1",
        "request = 'x'",
        "version = 0",
    ],
)
def test_every_column_is_under_the_digest(folder: RunFolder, column: str) -> None:
    change(folder, f"UPDATE journal SET {column} WHERE seq = 5")
    said = found(folder)["journal"]
    assert (
        said.startswith("row 5, column ")
        and column.split()[0] in said
        and "the digest doesn't follow from row 4" in said
    )


def test_a_missing_row_breaks_the_chain(folder: RunFolder) -> None:
    change(folder, "DELETE FROM journal WHERE seq = 7")
    assert found(folder)["journal"].startswith("row 8")


def test_another_runs_journal_isnt_this_runs(folder: RunFolder) -> None:
    file = folder.read()
    folder.write(msgspec.structs.replace(file, run="small-2"))
    assert found(folder)["journal"].startswith("row 1, ")


def test_a_forged_charge_is_found_though_the_chain_agrees(folder: RunFolder) -> None:
    def cheaper(row: Row) -> Row:
        if row.kind != "CallCharged":
            return row
        event = read_entry(row).event
        assert isinstance(event, CallCharged)
        body = msgspec.json.encode(msgspec.structs.replace(event, charge=event.charge - 1))
        return msgspec.structs.replace(row, body=body)

    rewrite(folder, cheaper)
    said = found(folder)["journal"]
    assert "CallCharged says" in said and "computed again it is" in said


def test_a_forged_score_is_found_though_the_chain_agrees(folder: RunFolder) -> None:
    rewrite(
        folder,
        lambda row: msgspec.structs.replace(row, body=row.body.replace(b'"correct":0', b'"correct":2')),
    )
    said = found(folder)
    assert said["score of base"] == "recorded 2 of 3, scored again 0 of 3"
    assert said["scoreboard"].startswith("computed again from the rows up to ")


def test_a_row_that_no_fold_can_take_is_told(folder: RunFolder) -> None:
    rewrite(folder, lambda row: msgspec.structs.replace(row, body=row.body.replace(b'"A-j1"', b'"A-j7"')) if row.kind == "AttemptStarted" else row)  # fmt: skip
    said = found(folder)["journal"]
    assert "A-j7" in said and "Traceback" not in said


def test_a_lost_and_a_changed_body_are_told(folder: RunFolder) -> None:
    digest = _digest(b"answered")
    change(folder, "DELETE FROM blobs WHERE digest = ?", digest, file="record.db")
    assert found(folder)["bodies"].endswith(f"names {digest}, which isn't on the record")


def test_a_changed_body_is_told(folder: RunFolder) -> None:
    with sqlite3.connect(folder.record) as base:
        (other,) = base.execute("SELECT zstd FROM blobs WHERE digest = ?", (_digest(b"asked"),)).fetchone()
        base.execute("UPDATE blobs SET zstd = ? WHERE digest = ?", (other, _digest(b"answered")))
    base.close()
    assert _digest(b"answered") in found(folder)["bodies"]


def test_an_erased_body_is_told_as_long_as_no_row_says_that_it_was(folder: RunFolder) -> None:
    """Erasing is no event yet, so nobody could tell it from a loss."""
    record = SqliteRecord(folder.path)
    record.erase(Digest(_digest(b"answered")))
    record.close()
    assert "bodies" in found(folder)


def test_erased_answers_cannot_be_scored_again_and_that_is_said(folder: RunFolder) -> None:
    answers = msgspec.json.encode([Answer(f"q{n}", "no", "stop") for n in range(3)])
    record = SqliteRecord(folder.path)
    record.erase(Digest(_digest(answers)))
    record.close()
    said = {check.name: check for check in verify(folder)}
    assert not said["score of base"].ok
    assert said["score of base"].found == f"can't be scored again: {_digest(answers)} isn't on the record"


@pytest.mark.parametrize("program", [None, "print('hello')"])
def test_another_exam_program_is_noticed(folder: RunFolder, program: str | None) -> None:
    path = folder.competition / "exam.py"
    path.unlink()
    if program is not None:
        path.write_text(program)
    told = found(folder)
    assert told["files"].startswith(f"{path} isn't the file that the run opened with, sha256:")
    assert {"score of base", "score of A-n1"} <= set(told)


def test_a_run_without_rows_is_not_ok(folder: RunFolder) -> None:
    """Otherwise a lost journal would be a clean bill."""
    for path in folder.path.glob("journal.db*"):
        path.unlink()
    assert found(folder) == {"journal": f"{folder.journal} has no rows"}


def test_a_frozen_board_that_was_never_so_is_found(folder: RunFolder) -> None:
    season_rows = _rows(folder)
    last = season_rows[-1]
    event = read_entry(last).event
    assert isinstance(event, ReportFrozen)
    rewrite(folder, lambda row: msgspec.structs.replace(row, body=row.body.replace(event.digest.encode(), _digest(b"asked").encode())))  # fmt: skip
    assert set(found(folder)) == {"scoreboard"}


def _rows(folder: RunFolder) -> list[Row]:
    with sqlite3.connect(folder.journal) as base:
        rows = [Row(*values) for values in base.execute("SELECT * FROM journal ORDER BY seq").fetchall()]
    base.close()
    return rows


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_journal_without_its_end_is_noticed_beside_a_frozen_scoreboard(folder: RunFolder) -> None:
    """Rows cut off at the end leave a chain that is whole; the scoreboard that was frozen tells that there were more."""
    journal = sqlite3.connect(folder.path / "journal.db")
    journal.execute(
        "delete from journal where seq >= (select min(seq) from journal where kind = 'ExamScored')"
    )
    journal.commit()
    journal.close()
    assert "the journal's end is gone" in found(folder)["scoreboard"]
