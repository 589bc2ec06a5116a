"""The journal's thread: submissions in, grouped into commits, each answered once it is durable.

Whatever is queued when a commit begins becomes one group: first the record, then the journal. So under load each sync
of the disk serves many waiters, and a lone one never waits for a timer. The rows of one submission are never split.
A failed commit is final: everyone waiting gets the error, and so does everyone who comes later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from palestra.events.codec import Row
from palestra.journal.record import Record
from palestra.ports import Journal, StepRow
from palestra.rules.errors import Broken, Corrupt, PalestraError
from palestra.rules.units import Digest

T = TypeVar("T")


class Submission(msgspec.Struct, frozen=True):
    """What must become durable together, and the promise made for it."""

    rows: tuple[Row, ...]
    blobs: tuple[bytes | Path, ...]
    steps: tuple[StepRow, ...]
    done: Future[None]


class Question(msgspec.Struct, frozen=True):
    """Something only the journal's thread may do, and the promise of its result."""

    ask: Callable[[], Any]
    done: Future[Any]


class SyncWriter:
    """A writer without a thread, for simulations: all is done before a call returns, and its futures are done already."""

    def __init__(self, journal: Journal, record: Record) -> None:
        self._journal = journal
        self._record = record
        self._failure: Exception | None = None
        self._closed = False

    def submit(
        self, rows: Sequence[Row], blobs: Sequence[bytes | Path] = (), steps: Sequence[StepRow] = ()
    ) -> Future[None]:
        """Make these durable: bodies and steps, then the rows that name them. Rows follow all that were submitted before.

        The future ends with None, or with `Broken` or `Corrupt`. It can't be cancelled: what is submitted gets written.
        A body given as a file must be readable until then: rows that name what can't be kept stop the journal.
        """
        submission = Submission(tuple(rows), tuple(blobs), tuple(steps), _promise())
        self._take(submission)
        return submission.done

    def read(self, after: int = 0, limit: int = 1000) -> Future[list[Row]]:
        """Durable rows with seq > after, all that was submitted so far included."""
        return self._ask(lambda: self._journal.read(after, limit))

    def head(self) -> Future[tuple[int, bytes]]:
        """(seq, digest) of the last durable row."""
        return self._ask(lambda: self._journal.head())

    def steps(self, corner: str, after: int = 0, limit: int = 1000) -> Future[list[StepRow]]:
        """Steps of a corner with n > after."""
        return self._ask(lambda: self._record.steps(corner, after, limit))

    def blob(self, digest: Digest) -> Future[bytes]:
        """A body; `KeyError` when unknown or erased."""
        return self._ask(lambda: self._record.open(digest))

    def erase(self, digest: Digest) -> Future[None]:
        """Erase a body; `KeyError` when it was never here."""
        return self._ask(lambda: self._record.erase(digest))

    def close(self) -> None:
        """Finish what is submitted, take nothing more. Who opened the journal and the record closes them."""
        self._closed = True

    def _ask(self, question: Callable[[], T]) -> Future[T]:
        done: Future[T] = _promise()
        self._take(Question(question, done))
        return done

    def _take(self, item: Submission | Question) -> None:
        if self._closed:
            _refuse(item)
        else:
            self._serve([item])

    def _serve(self, items: Sequence[Submission | Question]) -> None:
        """One commit for all submissions, then the questions, which so see everything that was submitted before them."""
        group = [item for item in items if isinstance(item, Submission)]
        if group:
            self._commit(group)
        for item in items:
            if isinstance(item, Question):
                _answer(item)

    def _commit(self, group: Sequence[Submission]) -> None:
        if self._failure is None:
            try:
                self._write(group)
            except Exception as error:
                self._failure = error
        for submission in group:
            if self._failure is None:
                submission.done.set_result(None)
            else:
                submission.done.set_exception(_told(self._failure))

    def _write(self, group: Sequence[Submission]) -> None:
        blobs = [blob for submission in group for blob in submission.blobs]
        steps = [step for submission in group for step in submission.steps]
        rows = [row for submission in group for row in submission.rows]
        if blobs or steps:
            self._record.keep(blobs, steps)
        if rows:
            self._journal.append(rows)


class Writer(SyncWriter):
    """The same in a thread of its own, which alone touches the journal and the record until `close`."""

    def __init__(self, journal: Journal, record: Record) -> None:
        super().__init__(journal, record)
        self._queue: SimpleQueue[Submission | Question | None] = SimpleQueue()
        self._gate = threading.Lock()
        # A daemon: a server that dies of something else must not hang on its queue, it must be gone, as after kill -9.
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish what is submitted, take nothing more, and end the thread."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _take(self, item: Submission | Question) -> None:
        with self._gate:
            if not self._closed:
                self._queue.put(item)
                return
        _refuse(item)

    def _run(self) -> None:
        more = True
        while more:
            items = [self._queue.get(), *(self._queue.get() for _ in range(self._queue.qsize()))]
            self._serve([item for item in items if item is not None])
            more = items[-1] is not None
            # No wait, only a turn for the other threads: those just answered may have their next rows ready, and so
            # a hundred waiters make one group and not two halves by turns.
            time.sleep(0)


def _promise() -> Future[Any]:
    """A future that its holder can't cancel."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()
    return done


def _answer(question: Question) -> None:
    try:
        question.done.set_result(question.ask())
    except Exception as error:
        question.done.set_exception(error)


def _refuse(item: Submission | Question) -> None:
    item.done.set_exception(Broken("the journal is closed: nothing more is written or read", retry=False))


def _told(failure: Exception) -> PalestraError:
    """Each waiter its own error to raise: one shared by all would gather all their tracebacks."""
    kind = Corrupt if isinstance(failure, Corrupt) else Broken
    told = kind(f"the journal has stopped: {failure}")
    told.__cause__ = failure
    return told
