"""Checks a run from its files alone: chain, ledgers, bodies, steps, files, scores, scoreboard. Reads only; says ok or where it breaks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from palestra.events.base import Entry
from palestra.events.codec import read_entry
from palestra.events.exams import ExamScored, ExamStarted
from palestra.events.runs import ReportFrozen, RunOpened
from palestra.events.spend import CallCharged
from palestra.journal.chain import check_chain
from palestra.journal.record import RecordReader
from palestra.journal.tail import Tail
from palestra.ports import Answer
from palestra.referee.exams import commitment
from palestra.report.scoreboard import Scoreboard, board_bytes
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Digest
from palestra.runtime.audit import Audit
from palestra.runtime.compare import SCOREBOARD
from palestra.runtime.examiner import ExamProgram
from palestra.runtime.folder import RunFolder
from palestra.runtime.kept import Check, check_bodies, check_files, check_steps, file_digest
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog


def verify(folder: RunFolder) -> Iterator[Check]:
    """Checks as they are done; after one that broke, those that build on it are left out."""
    run = folder.read()
    reading = _Reading(folder)
    yield from reading.walk(run.run)
    if not reading.whole:
        return
    try:
        record = RecordReader(folder.path)
    except (Broken, Corrupt) as error:
        yield Check("record", False, str(error))
        return
    try:
        yield from reading.beside(record)
        yield from reading.exams(record)
        yield reading.board()
    finally:
        record.close()


class _Reading:
    """One pass over the journal, and what later checks need of it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._state, self._catalog, self._audit = State(), Catalog(), Audit()
        self._digests: dict[Digest, int] = {}
        self._charges: list[tuple[int, CallCharged]] = []
        self._scored: list[ExamScored] = []
        self._started: dict[str, ExamStarted] = {}
        self._frozen: ReportFrozen | None = None
        self.whole = False

    def walk(self, run: str) -> Iterator[Check]:
        """Chain, decoding, folding and ledgers in one pass, row by row."""
        tail = Tail(self._folder.path)
        rows, last = 0, b""
        try:
            for row in check_chain(tail.rows(), run):
                entry = read_entry(row)
                rows, last = row.seq, row.digest
                fold.fold(self._state, entry)
                catalog.fold(self._catalog, entry)
                self._audit.check(entry, self._state)
                self._note(entry)
        except (Corrupt, Broken) as error:
            said = str(error)
            yield Check("journal", False, said if said.startswith("row ") else f"row {rows}: {said}")
            return
        except Exception as error:  # rows that no server wrote may break a fold in any way
            yield Check("journal", False, f"row {rows} can't follow the rows before it: {error!r}")
            return
        finally:
            tail.close()
        if self._state.opened is None:
            yield Check("journal", False, f"{self._folder.journal} has no rows")
            return
        self.whole = True
        yield Check(
            "chain", True, f"{rows} rows follow one another, digests agree; the last is {last.hex()[:16]}"
        )
        yield Check(
            "ledgers",
            True,
            f"{self._audit.charges} holds and charges computed again, every account agrees after every row",
        )

    def _note(self, entry: Entry) -> None:
        event = entry.event
        for field in event.__struct_fields__:
            self._collect(getattr(event, field), entry.seq, field)
        match event:
            case CallCharged():
                self._charges.append((entry.seq, event))
            case ExamStarted():
                self._started[event.exam] = event
            case ExamScored():
                self._scored.append(event)
            case ReportFrozen(name=name) if name == SCOREBOARD:
                self._frozen = event

    def _collect(self, value: object, seq: int, field: str) -> None:
        if isinstance(value, str) and value.startswith("sha256:") and field not in ("artifact", "base"):
            self._digests.setdefault(Digest(value), seq)
        elif isinstance(value, msgspec.Struct) and not isinstance(value, RunOpened):
            for name in value.__struct_fields__:
                self._collect(getattr(value, name), seq, name)

    def beside(self, record: RecordReader) -> Iterator[Check]:
        """What lies beside the journal."""
        assert self._state.opened is not None
        yield check_bodies(record, self._digests)
        yield check_steps(record, self._charges)
        yield check_files(self._folder, self._state.opened)

    def exams(self, record: RecordReader) -> Iterator[Check]:
        """Seed against commitment, questions made again, answers scored again."""
        for started in self._started.values():
            opened = self._state.opened
            assert opened is not None
            if commitment(started.seed) != opened.exam_seed_commitment:
                yield Check(
                    "exam seed", False, f"{started.exam}: the seed isn't the one committed to in row 1"
                )
                return
        for event in self._scored:
            yield self._rescore(event, record)

    def _rescore(self, event: ExamScored, record: RecordReader) -> Check:
        name = f"score of {event.target}"
        started = self._started.get(event.exam)
        if started is None:
            return Check(name, False, f"{event.exam} was scored but never started")
        exam = ExamProgram(self._folder.competition / "exam.py", self._state.rules.exam.args)
        try:
            questions = msgspec.json.encode(exam.questions(started.seed, started.n))
            if questions != record.open(started.questions):
                return Check(name, False, "the seed makes other questions now than those that were asked")
            answers = msgspec.json.decode(record.open(event.answers), type=list[Answer])
            score = exam.score(started.seed, started.n, answers)
        except KeyError as error:
            return Check(name, False, f"can't be scored again: {error.args[0]} isn't on the record")
        except (Broken, Corrupt, OSError, msgspec.DecodeError) as error:
            return Check(name, False, str(error))
        if (score.correct, score.n) != (event.correct, event.n):
            return Check(
                name,
                False,
                f"recorded {event.correct} of {event.n}, scored again {score.correct} of {score.n}",
            )
        return Check(name, True, f"{event.correct} of {event.n}, scored again from the kept answers")

    def board(self) -> Check:
        """The frozen scoreboard, computed again from the rows it names."""
        path = self._folder.reports / f"{SCOREBOARD}.json"
        if self._frozen is None and path.exists():
            if self._is_of_these_rows(path):  # a server was killed between writing it and telling of it
                return Check("scoreboard", True, "it is written, and the next server puts it on the record")
            return Check(
                "scoreboard", False, f"{path} is there, but no row tells of it: the journal's end is gone"
            )
        if self._frozen is None:
            return Check("scoreboard", True, f"none is frozen yet; the stage is {self._state.clock.stage}")
        again = board_bytes(*self._fold_to(self._frozen.upto))
        if "sha256:" + hashlib.sha256(again).hexdigest() != self._frozen.digest:
            return Check(
                "scoreboard",
                False,
                f"computed again from the rows up to {self._frozen.upto} it differs from the frozen one",
            )
        if file_digest(path) != self._frozen.digest:
            return Check("scoreboard", False, f"{path} isn't the scoreboard that was frozen")
        return Check("scoreboard", True, f"computed again from {self._frozen.upto} rows it is the frozen one")

    def _is_of_these_rows(self, path: Path) -> bool:
        """Whether the file follows from rows that are there."""
        data = path.read_bytes()
        try:
            upto = msgspec.json.decode(data, type=Scoreboard).seq
        except msgspec.DecodeError:
            return False
        return upto <= self._state.seq and board_bytes(*self._fold_to(upto)) == data

    def _fold_to(self, upto: int) -> tuple[State, Catalog]:
        """State and catalogue as they were after one row."""
        state, cards = State(), Catalog()
        tail = Tail(self._folder.path)
        for row in tail.rows():
            if row.seq > upto:
                break
            entry = read_entry(row)
            fold.fold(state, entry)
            catalog.fold(cards, entry)
        tail.close()
        return state, cards
