"""The figures of one window of a run, as integers: what detectors, charts and pages read, and nothing else.

Every figure has the rows that it comes from beside it. Everything is as of one instant; what came later is only in `later`.
"""

from __future__ import annotations

import msgspec

from palestra.events.base import Entry
from palestra.events.jobs import Cause, End
from palestra.events.nominations import Kind
from palestra.events.public import PublicEvent, Roster, Unit
from palestra.report.pace import Pace
from palestra.report.scoreboard import Scoreboard
from palestra.report.window import Window
from palestra.report.zone import Zone
from palestra.rules.units import HOUR, Micros, Moment, show_t
from palestra.state.catalog import NominationState

SHORT = 3 * HOUR
"""Competitions shorter than this show seconds in T+."""
Rows = tuple[int, ...]
RULES: Rows = (1,)
"""The row that holds the rules: where thresholds and limits come from."""


class Mark(msgspec.Struct, frozen=True):
    """An instant, and the row that tells of it."""

    at: Moment
    row: int


class Posting(msgspec.Struct, frozen=True):
    """A charge to an account."""

    at: Moment
    row: int
    amount: int


class Budget(msgspec.Struct, frozen=True):
    """One account: nano-dollars or GPU-microseconds, as of the instant, and what was posted inside the window."""

    limit: int
    spent: int
    held: int
    posted: int
    postings: tuple[Posting, ...]
    """All up to the instant."""

    def rows(self, since: int = 0) -> Rows:
        """The rows that `spent` is the sum of; from the window's start on, those of `posted`."""
        return tuple(one.row for one in self.postings if one.at >= since and one.amount)


class Spell(msgspec.Struct, frozen=True):
    """A stretch of waiting for one resource; `until` is the instant of the report where it goes on."""

    since: Moment
    until: Moment
    resource: str
    blockers: tuple[str, ...]
    row: int


class AttemptFacts(msgspec.Struct, frozen=True):
    """One attempt of a job."""

    attempt: str
    started: Mark
    ended: Mark | None = None
    end: End | None = None
    charge: int = 0


class JobFacts(msgspec.Struct, frozen=True):
    """A corner's job. House jobs are not counted anywhere in a report."""

    job: str
    corner: str
    name: str
    gpus: int
    memory: int
    limit: int
    submitted: Mark
    spells: tuple[Spell, ...] = ()
    runs: tuple[AttemptFacts, ...] = ()
    ended: Mark | None = None
    end: End | None = None
    cause: Cause = "none"

    @property
    def waited(self) -> Micros:
        """All its time in the queue so far."""
        return Micros(sum(spell.until - spell.since for spell in self.spells))


class NominationFacts(msgspec.Struct, frozen=True):
    """A nomination. Requested, copying, copied and decided are separate times (S04); charts go by the request."""

    nomination: str
    corner: str
    label: str
    note: str
    step: int | None
    size: int
    requested: Mark
    copying: Mark | None = None
    copied: Mark | None = None
    again: bool = False
    kind: Kind | None = None
    decided: Mark | None = None
    state: NominationState = "requested"
    code: str = ""
    message: str = ""
    current: bool = False


class SessionFacts(msgspec.Struct, frozen=True):
    """One life of an agent's process."""

    session: str
    corner: str
    started: Mark
    ended: Mark | None = None
    cause: str = ""


class RefusalFacts(msgspec.Struct, frozen=True):
    """A no, and how often it was repeated inside the window."""

    corner: str
    code: str
    about: str
    message: str
    rows: Rows
    times: int


class CornerFacts(msgspec.Struct, frozen=True):
    """A corner as of the instant. One that hasn't started has no figures at all: blank, not 0 (S53, S58)."""

    corner: str
    name: str
    lab: str
    alias: bool
    harness: str
    model: str
    joined: Mark | None
    starts: Moment | None
    """When one that is announced is to start."""
    late: bool
    """It joined while the competition was on."""
    pace: Pace | None
    """Of its own time; None before it began."""
    api: Budget | None
    gpu: Budget | None
    calls: int
    steps: int
    """Both inside the window."""
    finished: Mark | None
    removed: Mark | None
    note: str

    @property
    def done(self) -> bool:
        """Finished or taken out: no pace, no warnings (S46)."""
        return self.finished is not None or self.removed is not None


class Sat(msgspec.Struct, frozen=True):
    """An exam that is over."""

    target: str
    correct: int | None
    n: int
    failed: str
    row: int


class Stretch(msgspec.Struct, frozen=True):
    """A stage or a pause; `until` None: it goes on."""

    name: str
    since: Mark
    until: Mark | None = None


class Facts(msgspec.Struct, frozen=True):
    """One window of a run."""

    run: str
    title: str
    unit: Unit
    isolation: str
    zone: Zone
    start: Moment
    ends: Moment
    """When the running stage ends, or ended."""
    running: Micros
    window: Window
    at: Moment
    """The instant that every figure is as of."""
    row: int
    digest: str
    """The chain's digest at that row: whoever has the record can compare."""
    last_row: int
    last_digest: str
    """The last row that was read; later ones are in no list."""
    stages: tuple[Stretch, ...]
    pauses: tuple[Stretch, ...]
    board: Scoreboard
    corners: tuple[CornerFacts, ...]
    jobs: tuple[JobFacts, ...]
    nominations: tuple[NominationFacts, ...]
    sessions: tuple[SessionFacts, ...]
    refusals: tuple[RefusalFacts, ...]
    exams: tuple[Sat, ...]
    entries: tuple[Entry, ...]
    """Rows up to the instant that something can be said of, and how to say it in public."""
    roster: Roster
    later: tuple[PublicEvent, ...]
    """Facts after the snapshot, in no table and no figure (S01)."""
    rows: int
    """Rows inside the window."""
    charged_unseen: int
    """Calls inside the window whose usage was never seen, charged at their hold."""

    @property
    def short(self) -> bool:
        """Whether seconds matter."""
        return self.running < SHORT

    @property
    def is_running(self) -> bool:
        """Whether the instant lies in the running stage."""
        return self.board.stage == "running"

    def t(self, at: int) -> str:
        """T+ of an instant."""
        return show_t(at, self.start, seconds=self.short)

    def corner(self, corner: str) -> CornerFacts:
        """One corner's facts."""
        return next(one for one in self.corners if one.corner == corner)

    def jobs_of(self, corner: str) -> tuple[JobFacts, ...]:
        """Its jobs submitted inside the window."""
        return tuple(job for job in self.jobs if job.corner == corner and self.window.holds(job.submitted.at))

    def ended_of(self, corner: str) -> tuple[JobFacts, ...]:
        """Its jobs that ended inside the window."""
        return tuple(
            job for job in self.jobs if job.corner == corner and job.ended and self.window.holds(job.ended.at)
        )

    def nominations_of(self, corner: str) -> tuple[NominationFacts, ...]:
        """Its nominations requested inside the window."""
        return tuple(
            one for one in self.nominations if one.corner == corner and self.window.holds(one.requested.at)
        )

    def scaled(self, part: int, least: int) -> Micros:
        """A threshold that grows with the competition: its running time over `part`, but never under `least`."""
        return Micros(max(least, self.running // part))
