"""Checks a run from its files alone: chain, ledgers, bodies, scores, scoreboard. Reads only; says ok or where it breaks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from palestra.events.base import Entry
from palestra.events.codec import read_entry
from palestra.events.exams import ExamScored, ExamStarted
from palestra.events.runs import ReportFrozen, RunOpened
from palestra.journal.chain import check_chain
from palestra.journal.record import RecordReader
from palestra.journal.tail import Tail
from palestra.ports import Answer
from palestra.referee.exams import commitment
from palestra.report.scoreboard import board_bytes
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Digest
from palestra.runtime.audit import Audit
from palestra.runtime.compare import SCOREBOARD
from palestra.runtime.examiner import ExamProgram
from palestra.runtime.folder import RunFolder
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog


class Check(msgspec.Struct, frozen=True):
    """One thing that was checked, and what was found."""

    name: str
    ok: bool
    found: str


def verify(folder: RunFolder) -> Iterator[Check]:
    """Checks as they are done; after one that broke, those that build on it are left out."""
    run = folder.read()
    reading = _Reading(folder)
    yield from reading.walk(run.run)
    if reading.whole:
        yield reading.bodies()
        yield from reading.exams()
        yield reading.board()


class _Reading:
    """One pass over the journal, and what later checks need of it."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._record = RecordReader(folder.path)
        self._state, self._catalog, self._audit = State(), Catalog(), Audit()
        self._digests: dict[Digest, int] = {}
        self._scored: list[ExamScored] = []
        self._started: dict[str, ExamStarted] = {}
        self._frozen: ReportFrozen | None = None
        self.whole = False

    def walk(self, run: str) -> Iterator[Check]:
        """Chain, decoding, folding and ledgers in one pass, row by row."""
        tail = Tail(self._folder.path)
        rows = 0
        try:
            for row in check_chain(tail.rows(), run):
                entry = read_entry(row)
                rows = row.seq
                fold.fold(self._state, entry)
                catalog.fold(self._catalog, entry)
                self._audit.check(entry, self._state)
                self._note(entry)
        except (Corrupt, KeyError) as error:
            yield Check(
                "journal",
                False,
                str(error) if isinstance(error, Corrupt) else f"row {rows}: unknown id {error}",
            )
            return
        finally:
            tail.close()
        if not rows:
            yield Check("journal", False, f"{self._folder.journal} has no rows")
            return
        self.whole = True
        yield Check("chain", True, f"{rows} rows follow one another, digests agree")
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

    def bodies(self) -> Check:
        """Every body that an event names is there and is what its digest says, or was erased on the record."""
        erased = 0
        for digest, seq in self._digests.items():
            if self._record.erased(digest):
                erased += 1
                continue
            try:
                data = self._record.open(digest)
            except KeyError:
                return Check("bodies", False, f"row {seq} names {digest}, which isn't on the record")
            if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
                return Check("bodies", False, f"row {seq} names {digest}, but the body kept for it differs")
        return Check(
            "bodies", True, f"{len(self._digests)} bodies agree with their digests, {erased} of them erased"
        )

    def exams(self) -> Iterator[Check]:
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
            yield self._rescore(event)

    def _rescore(self, event: ExamScored) -> Check:
        name = f"score of {event.target}"
        started = self._started[event.exam]
        exam = ExamProgram(self._folder.competition / "exam.py", self._state.rules.exam.args)
        try:
            self._check_program()
            questions = msgspec.json.encode(exam.questions(started.seed, started.n))
            if questions != self._record.open(started.questions):
                return Check(name, False, "the seed makes other questions now than those that were asked")
            answers = msgspec.json.decode(self._record.open(event.answers), type=list[Answer])
            score = exam.score(started.seed, started.n, answers)
        except KeyError as error:
            return Check(name, True, f"not scored again: {error.args[0]} was erased")
        except (Broken, OSError, msgspec.DecodeError) as error:
            return Check(name, False, str(error))
        if (score.correct, score.n) != (event.correct, event.n):
            return Check(
                name,
                False,
                f"recorded {event.correct} of {event.n}, scored again {score.correct} of {score.n}",
            )
        return Check(name, True, f"{event.correct} of {event.n}, scored again from the kept answers")

    def _check_program(self) -> None:
        opened = self._state.opened
        assert opened is not None
        path = self._folder.competition / "exam.py"
        if "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest() != opened.exam_program:
            raise Broken(f"{path} isn't the program the run was opened with", retry=False)

    def board(self) -> Check:
        """The frozen scoreboard, computed again from the rows it names."""
        if self._frozen is None:
            return Check("scoreboard", True, f"none is frozen yet; the stage is {self._state.clock.stage}")
        again = board_bytes(*self._fold_to(self._frozen.upto))
        if "sha256:" + hashlib.sha256(again).hexdigest() != self._frozen.digest:
            return Check(
                "scoreboard",
                False,
                f"computed again from the rows up to {self._frozen.upto} it differs from the frozen one",
            )
        return Check("scoreboard", True, f"computed again from {self._frozen.upto} rows it is the frozen one")

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
