"""Journals to report on: golden ones, the pocket arena, runs on this disk; and their ledgers counted by `verify`'s own code."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import msgspec
from tests.journals.accept import journal
from tests.journals.lines import FOLDER, read_lines
from tests.report.pocket import pocket

from palestra.events.codec import Row, read_entry
from palestra.journal.tail import Tail
from palestra.report.facts import Facts
from palestra.report.gather import gather
from palestra.report.window import Asked
from palestra.report.zone import Zone
from palestra.rules.units import Moment
from palestra.runtime.audit import Audit
from palestra.state import fold
from palestra.state.arena import State

GOLDEN = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
RUNS = Path(os.environ.get("PALESTRA_RUNS", "/nowhere"))
FINISHED = sorted(path.parent.parent.name for path in RUNS.glob("*/reports/scoreboard.json"))
"""Finished runs in the folder that PALESTRA_RUNS names, to try real ones too."""
EVERY = [*GOLDEN, "pocket", *FINISHED]
UTC = Zone("UTC")


class Counted(msgspec.Struct, frozen=True):
    """What `verify` counts from the events alone, by (corner, resource)."""

    spent: dict[tuple[str, str], int]
    held: dict[tuple[str, str], int]

    def total(self, resource: str) -> int:
        """Of all corners."""
        return sum(amount for (_, name), amount in self.spent.items() if name == resource)


@cache
def rows_of(name: str) -> tuple[Row, ...]:
    """The rows of a golden journal, of the pocket arena, or of a finished run."""
    if name in GOLDEN:
        return tuple(read_lines(journal(name).read_bytes()))
    if name == "pocket":
        return tuple(pocket())
    tail = Tail(RUNS / name)
    try:
        return tuple(tail.rows())
    finally:
        tail.close()


@cache
def facts_of(name: str, asked: Asked = Asked()) -> Facts:  # noqa: B008  a frozen struct
    """The facts of a window of it, by default of all."""
    return gather(rows_of(name), asked, UTC)


def counted(name: str, until: Moment | None = None) -> Counted:
    """Its ledgers, counted a second time, up to and without an instant."""
    state, audit = State(), Audit()
    for row in rows_of(name):
        if until is not None and row.at >= until:
            break
        entry = read_entry(row)
        fold.fold(state, entry)
        audit.check(entry, state)
    sums = audit._sums
    return Counted(
        {key: one.spent for key, one in sums.items()},
        {key: sum(one.held.values()) for key, one in sums.items()},
    )


def instants(name: str) -> list[Moment]:
    """Every instant at which something happened."""
    return sorted({row.at for row in rows_of(name)})
