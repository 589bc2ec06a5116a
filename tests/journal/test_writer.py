"""The journal's thread: groups, order, failure, closing; and the writer without a thread, which must answer alike."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest

from palestra.events.codec import Row
from palestra.events.runs import AlarmRaised
from palestra.journal.bodies import digest_of
from palestra.journal.chain import check_chain, write_rows
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.writer import SyncWriter, Writer
from palestra.ports import Journal, StepRow
from palestra.rules.errors import Broken, Corrupt, PalestraError
from palestra.rules.units import Digest, Moment

RUN = "pocket"
PATIENCE = 30.0  # seconds until a wait that should have ended counts as hung


class Book:
    """What a desk keeps in its head: the last row it made, durable or not."""

    def __init__(self, journal: Journal) -> None:
        self.head = journal.head()

    def rows(self, count: int = 1) -> list[Row]:
        made = write_rows(self.head, Moment(1), "A", [AlarmRaised(f"disk:{n}", "full") for n in range(count)])
        self.head = (made[-1].seq, made[-1].digest)
        return made


class GatedJournal(MemoryJournal):
    """Notes each commit and, until `gate` is set, stays in the first one as a slow disk would."""

    def __init__(self) -> None:
        super().__init__(RUN)
        self.gate, self.entered = threading.Event(), threading.Event()
        self.commits: list[int] = []

    def append(self, rows: Sequence[Row]) -> None:
        if rows:
            self.entered.set()
            assert self.gate.wait(PATIENCE)
            self.commits.append(len(rows))
        super().append(rows)


@pytest.fixture(params=[SyncWriter, Writer])
def kind(request: pytest.FixtureRequest) -> type[SyncWriter]:
    chosen: type[SyncWriter] = request.param
    return chosen


def error_of(done: Future[None]) -> BaseException:
    error = done.exception(PATIENCE)
    assert error is not None
    return error


def test_what_is_submitted_can_be_read(kind: type[SyncWriter], folder: Path) -> None:
    with closing(SqliteJournal(folder, RUN)) as journal, closing(SqliteRecord(folder)) as record:
        book = Book(journal)
        step = StepRow("A", 1, "A-c1", "user", digest_of(b"body"), Moment(1))
        with closing(kind(journal, record)) as writer:
            first, second = book.rows(2), book.rows(1)
            assert writer.submit(first, [b"body"], [step]).result(PATIENCE) is None
            writer.submit(second)
            assert writer.read().result(PATIENCE) == first + second
            assert writer.read(1, 1).result(PATIENCE) == first[1:]
            assert writer.head().result(PATIENCE) == book.head
            assert writer.steps("A").result(PATIENCE) == [step]
            assert writer.blob(step.digest).result(PATIENCE) == b"body"
            assert writer.erase(step.digest).result(PATIENCE) is None
            with pytest.raises(KeyError):
                writer.blob(step.digest).result(PATIENCE)
            with pytest.raises(KeyError):
                writer.erase(Digest("sha256:unknown")).result(PATIENCE)
            # A wrong question is its asker's trouble alone.
            assert writer.submit(book.rows()).result(PATIENCE) is None


def test_a_ruling_without_events_but_with_steps_is_kept(kind: type[SyncWriter]) -> None:
    record = MemoryRecord()
    step = StepRow("A", 1, "A-c1", "user", digest_of(b"body"), Moment(1))
    with closing(kind(MemoryJournal(RUN), record)) as writer:
        assert writer.submit([], [b"body"], [step]).result(PATIENCE) is None
        assert writer.submit([]).result(PATIENCE) is None
    assert record.steps("A") == [step]


def test_whatever_is_queued_when_a_commit_begins_is_one_group() -> None:
    journal = GatedJournal()
    book = Book(journal)
    with closing(Writer(journal, MemoryRecord())) as writer:
        first = writer.submit(book.rows())
        assert journal.entered.wait(PATIENCE)
        waiting = [writer.submit(book.rows(count)) for count in (1, 2, 3) * 20]
        assert not first.done() and not any(done.done() for done in waiting)
        journal.gate.set()
        for done in waiting:
            assert done.result(PATIENCE) is None
        assert first.result(PATIENCE) is None
    assert journal.commits == [1, 120]


def test_a_waiter_can_not_cancel_what_is_being_written() -> None:
    journal = GatedJournal()
    book = Book(journal)
    with closing(Writer(journal, MemoryRecord())) as writer:
        dones = [writer.submit(book.rows()) for _ in range(3)]
        assert journal.entered.wait(PATIENCE)
        assert not any(done.cancel() for done in dones)
        journal.gate.set()
        assert [done.result(PATIENCE) for done in dones] == [None] * 3


class TracedRecord(MemoryRecord):
    """A record that notes how far the journal was when it was committed, and can be full."""

    def __init__(self, journal: Journal, full: bool = False) -> None:
        super().__init__()
        self._journal, self._full = journal, full
        self.journal_was: list[int] = []

    def keep(self, blobs: Iterable[bytes | Path], steps: Iterable[StepRow]) -> None:
        self.journal_was.append(self._journal.head()[0])
        if self._full:
            raise Broken("record.db: database or disk is full")
        super().keep(blobs, steps)


def test_the_record_is_committed_before_the_rows_that_name_it(kind: type[SyncWriter]) -> None:
    journal = MemoryJournal(RUN)
    record, book = TracedRecord(journal), Book(journal)
    with closing(kind(journal, record)) as writer:
        for n in range(3):
            writer.submit(book.rows(2), [b"body %d" % n]).result(PATIENCE)
        writer.submit(book.rows(2)).result(PATIENCE)
    assert record.journal_was == [0, 2, 4], "and not at all for rows that name nothing"
    assert journal.head()[0] == 8


def test_a_record_that_fails_keeps_its_rows_out_of_the_journal(kind: type[SyncWriter]) -> None:
    """F03: a full disk met by the record first."""
    journal = MemoryJournal(RUN)
    book = Book(journal)
    with closing(kind(journal, TracedRecord(journal, full=True))) as writer:
        assert writer.submit(book.rows()).result(PATIENCE) is None
        assert "disk is full" in str(error_of(writer.submit(book.rows(), [b"body"])))
        assert "disk is full" in str(error_of(writer.submit(book.rows())))
    assert journal.head()[0] == 1


def test_a_failed_commit_is_final_for_all_who_wait_and_all_who_come(kind: type[SyncWriter]) -> None:
    """F03: nobody is silently dropped, nothing of the failed group is there."""
    journal = MemoryJournal(RUN, room=2)
    book = Book(journal)
    with closing(kind(journal, MemoryRecord())) as writer:
        writer.submit(book.rows(2)).result(PATIENCE)
        errors = [error_of(writer.submit(book.rows())) for _ in range(5)]
        assert [str(error) for error in errors] == ["the journal has stopped: no room for row 3"] * 5
        assert len({id(error) for error in errors}) == 5, (
            "one error raised in many places gathers all tracebacks"
        )
        assert all(isinstance(error, Broken) for error in errors)
        assert [row.seq for row in writer.read().result(PATIENCE)] == [1, 2], (
            "what is durable can still be read"
        )


def test_the_whole_group_of_a_failed_commit_is_told() -> None:
    """F03, for those who wait together: one bad submission between two good ones takes both with it."""
    journal = GatedJournal()
    book = Book(journal)
    with closing(Writer(journal, MemoryRecord())) as writer:
        first = writer.submit(book.rows())
        assert journal.entered.wait(PATIENCE)
        good, _left_out, late = writer.submit(book.rows()), book.rows(), writer.submit(book.rows())
        journal.gate.set()
        assert first.result(PATIENCE) is None
        assert isinstance(error_of(good), Corrupt)
        assert "row 4, column seq: row 3 must come after row 2" in str(error_of(late))
    assert journal.head()[0] == 1


class Flood(Exception):
    """Not one of Palestra's own errors."""


class FloodedJournal(MemoryJournal):
    """Fails in a way nobody thought of."""

    def append(self, rows: Sequence[Row]) -> None:
        if rows:
            raise Flood("water in the machine room")


def test_an_error_of_any_kind_reaches_the_waiters(kind: type[SyncWriter]) -> None:
    journal = FloodedJournal(RUN)
    with closing(kind(journal, MemoryRecord())) as writer:
        error = error_of(writer.submit(Book(journal).rows()))
    assert isinstance(error, PalestraError) and "water in the machine room" in str(error)
    assert isinstance(error.__cause__, Flood)


def test_closing_finishes_what_is_queued_and_takes_nothing_more(kind: type[SyncWriter]) -> None:
    journal = GatedJournal()
    journal.gate.set()
    book = Book(journal)
    writer = kind(journal, MemoryRecord())
    dones = [writer.submit(book.rows(2)) for _ in range(50)]
    writer.close()
    assert all(done.done() and done.exception() is None for done in dones)
    assert journal.head()[0] == 100
    late: list[Future[None]] = [writer.submit(book.rows()), writer.erase(Digest("sha256:unknown"))]
    assert ["closed" in str(error_of(done)) for done in late] == [True, True]
    writer.close()
    assert journal.head()[0] == 100


def test_many_threads_may_submit_and_ask(folder: Path) -> None:
    """F02, inside one process: rows are made in order under one lock, as a desk does; waiting happens outside it."""
    with closing(SqliteJournal(folder, RUN)) as journal:
        book, turn = Book(journal), threading.Lock()
        with closing(Writer(journal, MemoryRecord())) as writer:

            def work() -> None:
                for _ in range(40):
                    with turn:
                        done = writer.submit(book.rows(3))
                    assert done.result(PATIENCE) is None

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert writer.head().result(PATIENCE) == book.head
        rows = list(check_chain(pages(journal), RUN))
    assert [row.seq for row in rows] == list(range(1, 961))


def pages(journal: Journal) -> Iterator[Row]:
    yield from journal.read(limit=2000)
