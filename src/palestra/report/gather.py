"""One pass over a run's rows: rows in, the facts of a window out. Rows after its end are only told of, in no figure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from palestra.events.base import Entry
from palestra.events.codec import Row, read_entry
from palestra.events.corners import EntrantAnnounced, EntrantFinished, EntrantRemoved, EntrantSeated
from palestra.events.exams import ExamFailed, ExamScored
from palestra.events.jobs import AttemptEnded
from palestra.events.masking import Secret, mask
from palestra.events.public import PublicEvent, Roster, publish
from palestra.events.runs import Paused, Resumed, RunOpened, StageEntered
from palestra.events.spend import CallCharged, CallReleased, CallReserved
from palestra.report.facts import (
    SHORT,
    Budget,
    CornerFacts,
    Facts,
    Mark,
    Posting,
    Sat,
    Stretch,
)  # fmt: skip
from palestra.report.pace import own_pace
from palestra.report.scoreboard import scoreboard
from palestra.report.trace import Trace
from palestra.report.window import Asked, Window, resolve
from palestra.report.zone import Zone
from palestra.rules.errors import BadInput
from palestra.rules.times import ends_at
from palestra.rules.units import Moment, show_t
from palestra.state import catalog, fold
from palestra.state.accounts import API, GPU
from palestra.state.arena import State
from palestra.state.catalog import Catalog
from palestra.state.queue import HOUSE

LATER = frozenset({
    "NominationRequested", "CopyKept", "CopyFailed", "NominationAccepted", "NominationRejected", "NominationWithdrawn",
    "EntrantSeated", "EntrantFinished", "StageEntered", "Paused", "Resumed", "ExamScored", "ExamFailed",
})  # fmt: skip
"""Kinds that are told of after the snapshot."""
MOST_LATER = 12
_SPEND = (CallReserved, CallCharged, CallReleased)
"""Nothing is said of single calls."""


def gather(rows: Iterable[Row], asked: Asked, zone: Zone, secrets: tuple[Secret, ...] = ()) -> Facts:
    """The facts of what was asked for; `BadInput` where the run has nothing in that window.

    Hand in rows whose chain is checked: a report then says only what the record bears out.
    """
    reading = _Reading(asked, secrets)
    for row in rows:
        if asked.upto is not None and row.seq > asked.upto:
            break
        reading.take(row, read_entry(row))
    return reading.facts(zone)


class _Reading:
    """Folds up to the end of the window, and what must be remembered beside them."""

    def __init__(self, asked: Asked, secrets: tuple[Secret, ...]) -> None:
        self._asked, self._secrets = asked, secrets
        self._state, self._catalog = State(), Catalog()
        self._trace = Trace(self._clean)
        self._window: Window | None = None
        self._roster = Roster((), secrets)
        self._as_of: Row | None = None
        self._last: Row | None = None
        self._before: dict[tuple[str, str], int] | None = None
        """What was spent when the window began; None before that."""
        self._postings: dict[tuple[str, str], list[Posting]] = {}
        self._seats: dict[str, tuple[Mark, EntrantSeated]] = {}
        self._finished: dict[str, tuple[Mark, EntrantFinished]] = {}
        self._removed: dict[str, Mark] = {}
        self._announced: dict[str, EntrantAnnounced] = {}
        self._stages: list[Stretch] = []
        self._pauses: list[Stretch] = []
        self._sat: dict[str, Sat] = {}
        self._entries: list[Entry] = []
        self._later: list[PublicEvent] = []
        self._rows = 0
        self._unseen = 0
        self._steps: dict[str, tuple[int, int]] = {}

    def take(self, row: Row, entry: Entry) -> None:
        """One row, in order."""
        event = entry.event
        if isinstance(event, RunOpened):
            short = event.rules.stages.running < SHORT
            self._window = resolve(self._asked, event.start, row.at, seconds=short)
            slots = any(node.gpu_kind == "slot" for node in event.rules.nodes)
            self._roster = Roster((), self._secrets, "slot" if slots else "GPU")
        assert self._window is not None, "row 1 opens the run"
        if isinstance(event, EntrantSeated):
            seat = (event.corner, self._clean(event.name))
            self._roster = replace(self._roster, seats=(*self._roster.seats, seat))
        self._last = row
        if not self._window.before_end(entry.at):
            self._note_later(entry)
            return
        if self._before is None and entry.at >= self._window.since:
            self._before = {key: account.spent for key, account in self._state.accounts.items()}
        self._as_of = row
        fold.fold(self._state, entry)
        catalog.fold(self._catalog, entry)
        self._trace.take(entry, self._window)
        self._rows += self._window.holds(entry.at)
        self._note(entry)
        if type(event) not in _SPEND:
            self._entries.append(entry)

    def _clean(self, text: str) -> str:
        return mask(text, self._secrets)

    def _note_later(self, entry: Entry) -> None:
        if len(self._later) < MOST_LATER and type(entry.event).__name__ in LATER:
            said = publish(entry, self._roster)
            if said is not None and said.corner != HOUSE:
                self._later.append(said)

    def _note(self, entry: Entry) -> None:
        mark = Mark(entry.at, entry.seq)
        match entry.event:
            case EntrantSeated() as event:
                self._seats[event.corner] = (mark, event)
            case EntrantAnnounced() as event:
                self._announced[event.corner] = event
            case EntrantFinished() as event:
                self._finished[event.corner] = (mark, event)
            case EntrantRemoved(corner=corner):
                self._removed[corner] = mark
            case StageEntered(stage=stage):
                _follow(self._stages, Stretch(stage, mark))
            case Paused():
                self._pauses.append(Stretch("paused", mark))
            case Resumed():
                _end_last(self._pauses, mark)
            case ExamScored() as event:
                self._sat[event.exam] = Sat(event.target, event.correct, event.n, "", mark.row)
            case ExamFailed() as event:
                self._sat[event.exam] = Sat(event.target, None, 0, event.code, mark.row)
            case CallCharged() | AttemptEnded():
                self._post(entry)

    def _post(self, entry: Entry) -> None:
        event = entry.event
        assert isinstance(event, CallCharged | AttemptEnded)
        if event.corner == HOUSE:
            return
        resource = API if isinstance(event, CallCharged) else GPU
        posting = Posting(entry.at, entry.seq, event.charge)
        self._postings.setdefault((event.corner, resource), []).append(posting)
        if isinstance(event, CallCharged) and self._window is not None and self._window.holds(entry.at):
            calls, steps = self._steps.get(event.corner, (0, 0))
            self._steps[event.corner] = (calls + 1, steps + event.steps)
            self._unseen += event.estimated

    def facts(self, zone: Zone) -> Facts:
        """Everything as of the last row before the window's end."""
        state, window, as_of, last = self._state, self._window, self._as_of, self._last
        if window is None or as_of is None or last is None or state.opened is None:
            raise BadInput("run", "", "a record has rows; this one has none yet")
        rules, clock = state.rules, state.clock
        if self._before is None:
            short = rules.stages.running < SHORT
            right = (
                f"the record ends at {show_t(last.at, clock.start, seconds=short)}, before the window begins"
            )
            raise BadInput("window", window.name, right)
        over = window.until is not None and last.at >= window.until
        at = window.until if over and window.until is not None else as_of.at
        ends = ends_at(clock.start, rules.stages.running, clock.pauses, rules.stages.pause, at)
        closed = self._catalog.stages.get("closing")
        ends = closed if closed is not None else ends
        return Facts(
            run=state.opened.run,
            title=self._clean(rules.title),
            unit=self._roster.unit,
            isolation=state.opened.isolation,
            zone=zone,
            start=clock.start,
            ends=ends,
            running=rules.stages.running,
            window=window,
            at=at,
            row=as_of.seq,
            digest=as_of.digest.hex(),
            last_row=last.seq,
            last_digest=last.digest.hex(),
            stages=tuple(self._stages),
            pauses=tuple(self._pauses),
            board=scoreboard(state, self._catalog),
            corners=self._corners(at, ends),
            jobs=self._trace.jobs_at(at),
            nominations=tuple(self._trace.nominations.values()),
            sessions=tuple(self._trace.sessions.values()),
            refusals=self._trace.refusals(),
            exams=tuple(self._sat.values()),
            entries=tuple(self._entries),
            roster=self._roster,
            later=tuple(self._later),
            rows=self._rows,
            charged_unseen=self._unseen,
        )

    def _corners(self, at: Moment, ends: Moment) -> tuple[CornerFacts, ...]:
        letters = sorted({*self._seats, *self._announced})
        return tuple(self._corner(corner, at, ends) for corner in letters)

    def _corner(self, corner: str, at: Moment, ends: Moment) -> CornerFacts:
        state = self._state
        seated = self._seats.get(corner)
        said = seated[1] if seated else self._announced[corner]
        finished, removed = self._finished.get(corner), self._removed.get(corner)
        joined = max(seated[0].at, state.clock.start) if seated else None
        started = joined is not None and joined < at
        left = [mark.at for mark in (finished[0] if finished else None, removed) if mark]
        until = min([at, *left])
        calls, steps = self._steps.get(corner, (0, 0))
        starts = self._announced[corner].starts if corner in self._announced else None
        return CornerFacts(
            corner=corner,
            name=self._clean(said.name),
            lab=self._clean(said.lab),
            alias=bool(said.sealed_name) or any(one.alias == said.name for one in state.rules.entrants),
            harness=said.harness,
            model=said.model,
            joined=Mark(Moment(joined), seated[0].row) if joined is not None and seated else None,
            starts=starts if joined is None else None,
            late=joined is not None and corner in self._announced,
            pace=own_pace(Moment(joined), ends, until, state.clock.pauses, state.rules.stages.pause)
            if joined is not None and started
            else None,
            api=self._budget(corner, API) if seated and started else None,
            gpu=self._budget(corner, GPU) if seated and started else None,
            calls=calls,
            steps=steps,
            finished=finished[0] if finished else None,
            removed=removed,
            note=self._clean(finished[1].note) if finished else "",
        )

    def _budget(self, corner: str, resource: str) -> Budget:
        account = self._state.accounts[corner, resource]
        before = (self._before or {}).get((corner, resource), 0)
        postings = tuple(self._postings.get((corner, resource), ()))
        return Budget(account.limit, account.spent, account.held, account.spent - before, postings)


def _follow(stretches: list[Stretch], one: Stretch) -> None:
    """A stage ends where the next one begins."""
    _end_last(stretches, one.since)
    stretches.append(one)


def _end_last(stretches: list[Stretch], mark: Mark) -> None:
    if stretches and stretches[-1].until is None:
        stretches[-1] = Stretch(stretches[-1].name, stretches[-1].since, mark)
