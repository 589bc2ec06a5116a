"""Jobs, nominations, sessions and refusals with the rows that tell of them: entries in, facts up to an instant out."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from palestra.events.base import Entry
from palestra.events.corners import EntrantRemoved, SessionEnded, SessionStarted
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded, JobSubmitted, WaitChanged
from palestra.events.nominations import (
    CopyKept,
    CopyStarted,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
    NominationWithdrawn,
)  # fmt: skip
from palestra.events.runs import RefusalsCounted, Refused
from palestra.report.facts import (
    AttemptFacts,
    JobFacts,
    Mark,
    NominationFacts,
    RefusalFacts,
    SessionFacts,
    Spell,
)  # fmt: skip
from palestra.report.window import Window
from palestra.rules.units import Moment
from palestra.state.queue import HOUSE


class Trace:
    """One pass over the entries before the end of the window. What isn't the house's is kept, by id."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """`clean` takes out of entrants' own words what may not be shown."""
        self._clean = clean
        self.jobs: dict[str, JobFacts] = {}
        self.nominations: dict[str, NominationFacts] = {}
        self.sessions: dict[str, SessionFacts] = {}
        self._queued: set[str] = set()
        self._refusals: dict[tuple[str, str, str], RefusalFacts] = {}
        self._messages: dict[tuple[str, str, str], str] = {}

    def take(self, entry: Entry, window: Window) -> None:
        """Take one entry in, in order."""
        event = entry.event
        match event:
            case JobSubmitted() | WaitChanged() | AttemptStarted() | AttemptEnded() | JobEnded():
                if event.corner != HOUSE:
                    self._job(event, Mark(entry.at, entry.seq))
            case Refused() | RefusalsCounted():
                self._refusal(event, entry.seq, inside=window.holds(entry.at))
            case SessionStarted(session=session, corner=corner):
                self.sessions[session] = SessionFacts(session, corner, Mark(entry.at, entry.seq))
            case SessionEnded(session=session, cause=cause):
                ended = Mark(entry.at, entry.seq)
                self.sessions[session] = replace(self.sessions[session], ended=ended, cause=cause)
            case _:
                self._nomination(entry)

    def jobs_at(self, at: Moment) -> tuple[JobFacts, ...]:
        """All jobs; the wait of one that still waits goes up to the instant."""
        return tuple(_close(job, at) if job.job in self._queued else job for job in self.jobs.values())

    def refusals(self) -> tuple[RefusalFacts, ...]:
        """By corner, code and subject, in the order in which each was first seen."""
        return tuple(self._refusals.values())

    def _job(
        self, event: JobSubmitted | WaitChanged | AttemptStarted | AttemptEnded | JobEnded, mark: Mark
    ) -> None:
        if isinstance(event, JobSubmitted):
            spec = event.spec
            job = JobFacts(
                event.job, event.corner, self._clean(spec.name), spec.gpus, spec.memory, spec.limit, mark
            )  # fmt: skip
            self.jobs[event.job] = self._queue(job, mark)
            return
        job = self.jobs[event.job]
        match event:
            case WaitChanged():
                spell = Spell(mark.at, mark.at, event.resource, event.blockers, mark.row)
                job = _close(job, mark.at)
                job = replace(job, spells=(*job.spells, spell))
            case AttemptStarted():
                job = self._unqueue(job, mark.at)
                job = replace(job, runs=(*job.runs, AttemptFacts(event.attempt, mark)))
            case AttemptEnded():
                run = replace(job.runs[-1], ended=mark, end=event.end, charge=event.charge)
                job = replace(job, runs=(*job.runs[:-1], run))
                if event.end == "preempted":  # it is queued again, and waits from here
                    job = self._queue(job, mark)
            case JobEnded():
                job = replace(self._unqueue(job, mark.at), ended=mark, end=event.end, cause=event.cause)
        self.jobs[event.job] = job

    def _queue(self, job: JobFacts, mark: Mark) -> JobFacts:
        self._queued.add(job.job)
        return replace(job, spells=(*job.spells, Spell(mark.at, mark.at, "", (), mark.row)))

    def _unqueue(self, job: JobFacts, at: Moment) -> JobFacts:
        if job.job not in self._queued:
            return job
        self._queued.remove(job.job)
        return _close(job, at)

    def _refusal(self, event: Refused | RefusalsCounted, row: int, *, inside: bool) -> None:
        """Its words are known from the first time, which may lie before the window."""
        key = (event.corner, event.code, self._clean(event.about))
        if isinstance(event, Refused):
            self._messages[key] = self._clean(event.message)
        if not inside:
            return
        times = 1 if isinstance(event, Refused) else event.count
        known = self._refusals.get(key) or RefusalFacts(*key, self._messages.get(key, ""), (), 0)
        self._refusals[key] = replace(known, rows=(*known.rows, row), times=known.times + times)

    def _nomination(self, entry: Entry) -> None:
        mark = Mark(entry.at, entry.seq)
        match entry.event:
            case NominationRequested() as event:
                self.nominations[event.nomination] = NominationFacts(
                    event.nomination,
                    event.corner,
                    self._clean(event.label),
                    self._clean(event.note),
                    event.step,
                    event.size,
                    mark,
                )
            case CopyStarted(nomination=nomination):
                self._change(nomination, copying=mark, state="copying")
            case CopyKept() as event:
                self._change(
                    event.nomination, copied=mark, again=event.again, kind=event.inspection.kind, state="validating"
                )  # fmt: skip
            case NominationRejected() as event:
                self._change(
                    event.nomination, decided=mark, state="rejected", code=event.code, message=self._clean(event.message)
                )  # fmt: skip
            case NominationAccepted() as event:
                if event.current:
                    self._nothing_current(event.corner)
                self._change(event.nomination, decided=mark, state="accepted", current=event.current)
            case NominationWithdrawn(nomination=nomination):
                self._change(nomination, decided=mark, state="withdrawn", current=False)
            case EntrantRemoved(corner=corner):
                self._nothing_current(corner)

    def _nothing_current(self, corner: str) -> None:
        for one in self.nominations.values():
            if one.corner == corner and one.current:
                self._change(one.nomination, current=False)

    def _change(self, nomination: str, **fields: object) -> None:
        self.nominations[nomination] = replace(self.nominations[nomination], **fields)


def _close(job: JobFacts, at: Moment) -> JobFacts:
    """The stretch of waiting that is open goes up to here; an empty one is dropped."""
    *before, last = job.spells
    spell = replace(last, until=at)
    return replace(job, spells=(*before, spell) if spell.until > spell.since else tuple(before))
