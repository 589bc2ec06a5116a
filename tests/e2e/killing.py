"""When a server is killed, and what must be so whenever it was: rows seen in, moments to kill at and broken promises out."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.e2e.arena import LOOK, PATIENCE, Arena, Served

from palestra.cluster.spool import Spool
from palestra.events.base import Entry
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobSubmitted
from palestra.events.runs import StageEntered
from palestra.state.arena import State
from palestra.state.catalog import Catalog

OPENING = (
    "lock",
    "journal.db",
    "record.db",
    "competition/exam.py",
    "secrets/exam.seed",
    "secrets/salts.json",
)
"""Files that an opening makes, in this order: it is killed as soon as each is there."""
MOMENTS = Counter(
    {
        "ServerStarted": 2,
        "CallReserved": 5,
        "CallCharged": 2,
        "JobSubmitted a job": 2,
        "AttemptStarted a job": 2,
        "AttemptEnded a job": 2,
        "NominationRequested": 2,
        "CopyStarted": 3,
        "CopyKept": 2,
        "AttemptStarted a validation": 2,
        "AttemptEnded a validation": 2,
        "NominationAccepted": 2,
        "EntrantFinished": 2,
        "StageEntered closing": 1,
        "StageEntered judging": 1,
        "ExamStarted": 1,
        "AttemptEnded an exam": 2,
        "ExamScored": 2,
        "StageEntered results": 1,
    }
)
"""Rows after which it is killed, and how often; the rest of the kills come by chance."""
SHORTLY = 0.3
"""Seconds, at most, from a moment's row to the kill: what follows from the row is then under way, or just not yet."""
LIVES = (0.2, 4.0)
"""Seconds that a server may live when no moment comes; the shorter ones end while it starts."""
ROWS_A_CHANCE = 6
"""There is one kill by chance for so many rows at most, so that they are spread over the whole run."""


CHANCE = "chance"


class Kill(NamedTuple):
    """One kill -9 and where the run stood, as far as its journal tells."""

    why: str
    rows: int
    stage: str
    open: Counter[str]


def moment(entry: Entry, cards: Catalog) -> str:
    """What a row is called in `MOMENTS`."""
    match entry.event:
        case StageEntered(stage=stage):
            return f"StageEntered {stage}"
        case JobSubmitted(job=job) | AttemptStarted(job=job) | AttemptEnded(job=job):
            purpose = cards.jobs[job].purpose
            whose = {"validate": "a validation", "exam": "an exam"}.get(purpose.partition(":")[0], "a job")
            return f"{type(entry.event).__name__} {whose}"
    return type(entry.event).__name__


def under_way(state: State) -> Counter[str]:
    """What was open when the server died."""
    counts = {
        "calls": len(state.calls),
        "attempts": len(state.attempts),
        "sessions": len(state.sessions),
        "copies": sum(one.state == "copying" for one in state.nominations.values()),
        "validations": sum(one.state == "validating" for one in state.nominations.values()),
        "exams": sum(not sitting.over for sitting in state.exams.values()),
    }
    return +Counter(counts)


class Witness:
    """What was seen so far of a run, and must hold for ever."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._digests: list[bytes] = []
        self._processes: dict[Path, str] = {}
        self.adopted: Counter[str] = Counter()
        """Processes that ran on while the server was dead, by the folder they are in, each time it died."""

    def look(self) -> None:
        """Right after a kill: every row that was durable is there, every process is the one that it was, and lives on."""
        digests = self._arena.journal.digests()
        assert digests[: len(self._digests)] == self._digests
        self._digests = digests
        for folder in self._arena.folder.spool.glob("[as][te][ts]*/*"):
            self._look_at(folder)
        for corner, count in self._current().items():
            assert count <= 1, f"corner {corner} has {count} current nominations"

    def _look_at(self, folder: Path) -> None:
        pid = folder / "pid"
        if not pid.exists():
            return
        who = pid.read_text()
        assert self._processes.setdefault(folder, who) == who, f"{folder} was started a second time"
        begun = Spool(folder).begun()
        assert begun is not None
        alive = begun.lives()
        if Spool(folder).status() is None:  # read second: it is written before the shim ends
            assert alive, f"{folder}: its shim died with the server"
            self.adopted[folder.parent.name] += 1

    def _current(self) -> Counter[str]:
        return Counter(card.corner for card in self._arena.journal.cards.nominations.values() if card.current)


class Killer:
    """Serves a run again and again, and kills the server each time, until the run is over."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.arena = arena
        self.witness = Witness(arena)
        self.kills: list[Kill] = []
        self._chance = Random(seed)
        self._due = +MOMENTS

    def kill_openings(self) -> None:
        """Each opening is killed earlier than the one before it was not; the last one goes through."""
        for name in OPENING:
            server = self.arena.serve("--until-end")
            self._await_file(server, name)
            self._kill(server, f"opening, at {name}")
            if self.arena.folder.exists:
                break

    def kill_lives(self) -> Served:
        """After each moment, and by chance; then a life that nobody ends."""
        while True:
            server = self.arena.serve("--until-end")
            why = self._await_moment(server)
            if not why:
                return server
            self._kill(server, why)

    def left_out(self) -> Counter[str]:
        """Moments that never came."""
        return +self._due

    def places(self) -> set[str]:
        """Stages and things under way, in and during which it was killed; right after a start counts, too."""
        started = {"CallReserved": "calls", "CopyStarted": "copies", "ExamStarted": "exams"}
        at = {started[name] for kill in self.kills for name in kill.why.split(", ") if name in started}
        return at | {kill.stage for kill in self.kills} | {what for kill in self.kills for what in kill.open}

    def _come(self) -> list[str]:
        """The moments among the new rows, each that is still due."""
        names = [moment(entry, self.arena.journal.cards) for entry in self.arena.journal.read()]
        come = [name for name in names if self._due[name]]
        self._due -= Counter(come)
        return come

    def _may_chance(self) -> bool:
        by_chance = sum(kill.why == CHANCE for kill in self.kills)
        return by_chance * ROWS_A_CHANCE <= self.arena.journal.state.seq

    def _await_file(self, server: Served, name: str) -> None:
        path = self.arena.folder.path / name
        deadline = time.monotonic() + PATIENCE
        while not path.exists() and not self.arena.folder.exists:
            assert not server.ended, server.said()
            assert time.monotonic() < deadline, f"{path} never came"
            time.sleep(0.0005)

    def _await_moment(self, server: Served) -> str:
        """Why to kill it now; empty when it has left by itself."""
        begin, life = time.monotonic(), self._chance.uniform(*LIVES)
        while not server.ended:
            if come := self._come():
                self._linger(self._chance.uniform(0, SHORTLY))
                return ", ".join(come)
            lived = time.monotonic() - begin
            if lived >= life and self._may_chance():
                return CHANCE
            assert lived < PATIENCE, f"nothing happened for {lived:.0f} s:\n{server.said()}"
            time.sleep(LOOK)
        self._come()
        return ""

    @staticmethod
    def _linger(seconds: float) -> None:
        """Not for something to happen: the instant of a kill is what is drawn."""
        time.sleep(seconds)

    def _kill(self, server: Served, why: str) -> None:
        server.kill()
        opened = self.arena.folder.exists
        if opened:
            why = ", ".join([why, *self._come()])  # what came since was killed at as well
            self.witness.look()
        state = self.arena.journal.state
        stage = state.clock.stage if opened else "opening"
        self.kills.append(Kill(why, state.seq, stage, under_way(state)))
