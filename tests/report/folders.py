"""A finished run's folder with a journal in it, as `palestra run` leaves it: what the command and the browser look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.building import RUN

from palestra.events.codec import Row
from palestra.journal.sqlite import SqliteJournal
from palestra.runtime.folder import RunFile, RunFolder


def write_run(path: Path, rows: Sequence[Row]) -> RunFolder:
    """Rows as a run on disk."""
    folder = RunFolder(path)
    folder.make()
    folder.write(RunFile(RUN, "competition.toml", "base", "0"))
    journal = SqliteJournal(folder.path, RUN)
    journal.append(rows)
    journal.close()
    return folder
