"""kill -9 of a process that writes as fast as it can: whatever it acknowledged is there, and the rest is whole or absent."""

import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palestra.journal.bodies import digest_of
from palestra.journal.chain import check_chain, walk
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.rules.units import Digest

Start = Callable[..., "subprocess.Popen[str]"]
RUN = "pocket"
ACKNOWLEDGED_BEFORE_KILL = (1, 40, 2, 400, 3, 90)


@pytest.mark.slow
def test_killed_six_times_the_book_has_every_acknowledged_row(folder: Path, start: Start) -> None:
    """F01, F02: six servers one after another on the same run, each killed at another point."""
    acknowledged = 0
    for wanted in ACKNOWLEDGED_BEFORE_KILL:
        child = start("write", folder)
        assert child.stdout
        opened = int(child.stdout.readline().removeprefix("open "))
        assert opened >= acknowledged, "the next server continues the book"
        for _ in range(wanted):
            acknowledged = int(child.stdout.readline().removeprefix("acknowledged "))
        child.kill()
        # What it still managed to say before it died counts as acknowledged too.
        for line in child.communicate()[0].splitlines(keepends=True):
            if line.startswith("acknowledged ") and line.endswith("\n"):
                acknowledged = int(line.removeprefix("acknowledged "))
        check_book(folder, acknowledged)
    assert acknowledged > sum(ACKNOWLEDGED_BEFORE_KILL)


def check_book(folder: Path, acknowledged: int) -> None:
    with closing(SqliteJournal(folder, RUN)) as journal, closing(SqliteRecord(folder)) as record:
        rows = list(check_chain(walk(journal), RUN))
        assert len(rows) == journal.head()[0] >= acknowledged
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        # The record was committed first: no row names a body or a step that isn't there.
        steps = record.steps("A", limit=len(rows) + 1000)
        assert [step.n for step in steps[: len(rows)]] == list(range(1, len(rows) + 1))
        for row, step in zip(rows, steps, strict=False):
            assert step.digest == row.subject
            assert digest_of(record.open(Digest(row.subject))) == row.subject
