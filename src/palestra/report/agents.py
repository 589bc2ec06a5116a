"""Agent by agent: facts and findings in, one part of the page for each corner out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from palestra.report.badges import Badge, badges
from palestra.report.charts.ends import ENDS, end_of
from palestra.report.charts.nominations import say
from palestra.report.evidence import Evidence
from palestra.report.facts import CornerFacts, Facts, NominationFacts, RefusalFacts
from palestra.report.findings import Finding
from palestra.report.lanes import strip
from palestra.report.words import capital, own, percent, plural, show_gpu_time, words
from palestra.rules.units import show_dollars

MOST = 8
"""Nominations and refusals listed for one corner; the rest is counted."""
MOST_SEEN = 4


class NominationLine(msgspec.Struct, frozen=True):
    """A nomination in the list beside."""

    nomination: str
    kind: str
    label: str
    times: str
    state: str
    code: str
    current: bool
    note: str


class AgentPart(msgspec.Struct, frozen=True):
    """One corner's part."""

    corner: str
    name: str
    lab: str
    badges: tuple[Badge, ...]
    line: str
    strip: Markup | None
    rows: tuple[tuple[str, Markup], ...]
    nominations: tuple[NominationLine, ...]
    more: int


def agent_parts(facts: Facts, ranked: Sequence[Finding], evidence: Evidence) -> tuple[AgentPart, ...]:
    """In the order of corners."""
    return tuple(_part(facts, seat, ranked, evidence) for seat in facts.corners)


def pieces(finding: Finding, template: str, evidence: Evidence) -> Markup:
    """A sentence whose figures lead to their rows."""
    parts = [
        evidence.link(piece.text, piece.figure.rows, f"{finding.title}: {piece.text}")
        if piece.figure
        else Markup("{}").format(piece.text)
        for piece in finding.pieces(template)
    ]
    return Markup().join(parts)


def _part(facts: Facts, seat: CornerFacts, ranked: Sequence[Finding], evidence: Evidence) -> AgentPart:
    mine = [one for one in ranked if seat.corner in one.corners]
    requested = facts.nominations_of(seat.corner)
    rows: list[tuple[str, Markup]] = []
    if seat.joined is not None and seat.api is not None:
        rows += [
            ("Seen" if not number else "", pieces(one, one.said, evidence))
            for number, one in enumerate(mine[:MOST_SEEN])
        ]
        rows += _spent(facts, seat, evidence)
        rows.append(("Jobs", _jobs(facts, seat, evidence)))
        rows += _refused(facts, seat, evidence)
        rows.append(("At work", _work(facts, seat, evidence)))
        if seat.note:
            rows.append(("Its last word", Markup("“{}”").format(own(seat.note, 300))))
    return AgentPart(
        corner=seat.corner,
        name=own(seat.name, 60),
        lab=own(seat.lab, 60),
        badges=badges(facts, seat),
        line=mine[0].text(mine[0].head) if mine else _quiet(facts, seat),
        strip=strip(facts, evidence, seat) if seat.joined is not None else None,
        rows=tuple(rows),
        nominations=tuple(_line(facts, one) for one in requested[-MOST:]),
        more=max(0, len(requested) - MOST),
    )


def _quiet(facts: Facts, seat: CornerFacts) -> str:
    if seat.joined is None:
        return "Taken out before it started." if seat.removed else "Not started in this window."
    jobs = len(facts.jobs_of(seat.corner))
    if not jobs and not facts.nominations_of(seat.corner):
        return "No job and no nomination in this window."
    return f"{capital(plural(jobs, 'job'))}, {plural(len(facts.nominations_of(seat.corner)), 'nomination')}."


def _spent(facts: Facts, seat: CornerFacts, evidence: Evidence) -> list[tuple[str, Markup]]:
    """What was posted inside the window, and the whole since its start where that is more."""
    found = []
    assert seat.api is not None
    assert seat.gpu is not None
    for what, one in (("API credit", seat.api), (f"{capital(facts.unit)}-time", seat.gpu)):

        def show(amount: int, *, api: bool = one is seat.api) -> str:
            return show_dollars(amount) if api else show_gpu_time(facts, amount)

        rows = one.rows(facts.window.since)
        said = Markup("{} of {}").format(
            evidence.link(show(one.posted), rows, f"{what} posted in the window by {seat.corner}"),
            show(one.limit),
        )
        if one.posted != one.spent:
            all_rows = evidence.link(show(one.spent), one.rows(), f"{what} spent by {seat.corner}")
            said = Markup("{} in this window; {} of {} since its start").format(
                evidence.link(show(one.posted), rows, f"{what} posted in the window by {seat.corner}"),
                all_rows,
                show(one.limit),
            )
        said += Markup(", {}").format(percent(one.spent, one.limit, 2))
        if one.held:
            said += Markup("; {} held").format(show(one.held))
        found.append((what, said))
    return found


def _jobs(facts: Facts, seat: CornerFacts, evidence: Evidence) -> Markup:
    """By end, and by cause where a cause says more."""
    jobs = facts.jobs_of(seat.corner)
    if not jobs:
        return Markup("none")
    parts = []
    for end in ENDS:
        these = [job for job in jobs if end_of(facts, job) == end]
        if not these:
            continue
        rows = [job.ended.row if job.ended else job.submitted.row for job in these]
        word = "still open" if end == "open" else words(end)
        causes = sorted(
            {
                words(job.cause)
                for job in these
                if job.cause not in ("none", end, "cancelled", "time_limit", "no_output")
            }
        )
        why = Markup(" ({})").format(", ".join(causes)) if causes else Markup()
        parts.append(
            Markup("{} {}{}").format(
                evidence.link(str(len(these)), rows, f"{capital(word)}, jobs of {seat.corner}"), word, why
            )
        )
    return Markup(", ").join(parts)


def _refused(facts: Facts, seat: CornerFacts, evidence: Evidence) -> list[tuple[str, Markup]]:
    mine = [one for one in facts.refusals if one.corner == seat.corner]
    found = [("Refused" if not number else "", _no(one, evidence)) for number, one in enumerate(mine[:MOST])]
    if len(mine) > MOST:
        found.append(("", Markup("and {} of other kinds").format(len(mine) - MOST)))
    return found


def _no(one: RefusalFacts, evidence: Evidence) -> Markup:
    times = "once" if one.times == 1 else "twice" if one.times == 2 else f"{one.times:,} times"
    return Markup("{}, {}: {}").format(
        Markup('<span class="code">{}</span>').format(own(one.code, 60)),
        evidence.link(times, one.rows, f"Refusals {own(one.code, 60)} of {one.corner}"),
        own(one.message, 240) or "no words",
    )


def _work(facts: Facts, seat: CornerFacts, evidence: Evidence) -> Markup:
    sessions = [
        one for one in facts.sessions
        if one.corner == seat.corner and (one.ended is None or one.ended.at >= facts.window.since)
    ]  # fmt: skip
    rows = [mark.row for one in sessions for mark in (one.started, one.ended) if mark]
    calls = [row.row for row in seat.api.postings if row.at >= facts.window.since] if seat.api else []
    said = Markup("{}, {}, {}").format(
        evidence.link(plural(len(sessions), "session"), rows, f"Sessions of {seat.corner}"),
        evidence.link(plural(seat.calls, "model call"), calls, f"Calls of {seat.corner}"),
        evidence.link(plural(seat.steps, "step"), calls, f"Calls of {seat.corner}"),
    )
    lost = [one for one in sessions if one.cause == "lost"]
    if lost:
        said += Markup("; {}").format(
            evidence.link(
                plural(len(lost), "session") + " lost without a trace",
                [one.ended.row for one in lost if one.ended],
                "Lost sessions",
            )
        )
    return said


def _line(facts: Facts, one: NominationFacts) -> NominationLine:
    _, _, times = say(facts, one).partition(" requested ")
    return NominationLine(
        nomination=one.nomination,
        kind=one.kind or "",
        label=own(one.label, 60),
        times=f"requested {times}",
        state=words(one.state),
        code=own(words(one.code), 60),
        current=one.current,
        note=own(one.note, 300),
    )
