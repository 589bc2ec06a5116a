"""One agent's time as a strip: sessions below, jobs in lanes, nominations on top; facts in, HTML out."""

from __future__ import annotations

from markupsafe import Markup

from palestra.report.drawing import Axis, axis, plane
from palestra.report.evidence import Evidence
from palestra.report.facts import CornerFacts, Facts, JobFacts
from palestra.report.words import own, span, words

LANES = 3


def strip(facts: Facts, evidence: Evidence, seat: CornerFacts) -> Markup:
    """A job that overlaps with others goes to the next lane; beyond the last one they lie over each other."""
    line = axis(facts)
    parts = [plane(facts, line)]
    for session in facts.sessions:
        if session.corner == seat.corner:
            until = session.ended.at if session.ended else facts.at
            if until >= line.since:
                parts.append(
                    Markup('<i class="ses" style="left:{};width:{}" title="{}"></i>').format(
                        line.x(session.started.at),
                        line.width(session.started.at, until),
                        f"Session {session.session}{f', {session.cause}' if session.cause else ''}",
                    )
                )
    parts += _jobs(facts, evidence, seat, line)
    for one in facts.nominations_of(seat.corner):
        style = "bad" if one.state == "rejected" else one.kind or "open"
        parts.append(
            Markup('<i class="dot {}{}" style="left:{}"></i>').format(
                style, " cur" if one.current else "", line.x(one.requested.at)
            )
        )
    said = f"{seat.corner}: sessions, jobs and nominations over time; all are listed below"
    return Markup('<div class="strip c-{}" role="img" aria-label="{}">{}</div>').format(
        seat.corner, said, Markup().join(parts)
    )


def _jobs(facts: Facts, evidence: Evidence, seat: CornerFacts, line: Axis) -> list[Markup]:
    free = [0] * LANES
    drawn = []
    for job in facts.jobs:
        if job.corner != seat.corner:
            continue
        for run in job.runs:
            until = run.ended.at if run.ended else facts.at
            if until < line.since:
                continue
            lane = next((number for number, ends in enumerate(free) if ends <= run.started.at), LANES - 1)
            free[lane] = until
            end = run.end or "open"
            said = f"{job.job} “{own(job.name, 40)}”: {words(end)}, {span(until - run.started.at)}"
            drawn.append(
                Markup('<i class="job e-{} l{}" style="left:{};width:{}" title="{}"></i>').format(
                    end, lane, line.x(run.started.at), line.width(run.started.at, until), said
                )
            )
    return drawn


def ran(job: JobFacts, at: int) -> int:
    """How long its attempts ran, so far."""
    return sum((run.ended.at if run.ended else at) - run.started.at for run in job.runs)
