"""How jobs ended, by corner: one stacked bar each on one scale, a part for each end; HTML out."""

from __future__ import annotations

from typing import get_args

from markupsafe import Markup

from palestra.events.jobs import End
from palestra.report.drawing import Chart, part, who
from palestra.report.evidence import Evidence
from palestra.report.facts import CornerFacts, Facts, JobFacts
from palestra.report.words import capital, number, plural, words

ENDS: tuple[str, ...] = (*get_args(End), "open")
OPEN = "open"
"""Waiting or running at the instant of the report."""


def end_of(facts: Facts, job: JobFacts) -> str:
    """Its end, or that it is open."""
    return job.end or OPEN


def draw(facts: Facts, evidence: Evidence) -> Chart:
    """Jobs submitted inside the window, whatever they were for: tests and failed ones count (S11)."""
    by_corner = [(seat, facts.jobs_of(seat.corner)) for seat in facts.corners]
    most = max((len(jobs) for _, jobs in by_corner), default=0)
    rows = [_row(facts, evidence, seat, jobs, most) for seat, jobs in by_corner]
    seen = [end for end in ENDS if any(end_of(facts, job) == end for _, jobs in by_corner for job in jobs)]
    legend = [Markup('<li><i class="sq e-{}"></i>{}</li>').format(end, _word(end)) for end in seen]
    body = Markup('<ul class="leg">{}</ul><ul class="bars">{}</ul>').format(
        Markup().join(legend), Markup().join(rows)
    )
    sub = "Every job submitted inside the window, tests and failed ones too. The arena’s own jobs aren’t counted."
    return Chart(
        "ends", "Jobs by end", _title(facts, [job for _, jobs in by_corner for job in jobs]), sub, body
    )


def _title(facts: Facts, jobs: list[JobFacts]) -> str:
    if not jobs:
        return "No jobs in this window"
    done = sum(job.end == "completed" for job in jobs)
    if done == len(jobs):
        return {1: "The only job completed", 2: "Both jobs completed"}.get(
            done, f"All {plural(done, 'job')} completed"
        )
    rest: dict[str, int] = {}
    for job in jobs:
        if job.end != "completed":
            rest[end_of(facts, job)] = rest.get(end_of(facts, job), 0) + 1
    most = max(rest, key=lambda end: rest[end])
    one = rest[most] == 1
    verb = {OPEN: "is " if one else "are ", "lost": "was " if one else "were ", "out_of_memory": "ran "}.get(
        most, ""
    )
    return f"{capital(number(done))} of {plural(len(jobs), 'job')} completed; {number(rest[most])} {verb}{_word(most).lower()}"


def _word(end: str) -> str:
    return "Still open" if end == OPEN else capital(words(end))


def _row(
    facts: Facts, evidence: Evidence, seat: CornerFacts, jobs: tuple[JobFacts, ...], most: int
) -> Markup:
    parts = []
    for end in ENDS:
        these = [job for job in jobs if end_of(facts, job) == end]
        if these:
            rows = [job.ended.row if job.ended else job.submitted.row for job in these]
            said = f"{_word(end)}: {plural(len(these), 'job')}"
            parts.append(
                Markup('<a class="bar e-{}" style="width:{}" data-v="{}" href="{}" title="{}" aria-label="{}">{}</a>').format(
                    end, part(len(these), most), len(these), evidence.cite(rows, f"{_word(end)}, jobs of {seat.corner}"),
                    said, said, len(these),
                )
            )  # fmt: skip
    blank = "not started" if seat.joined is None else f"{len(jobs)}"
    return Markup('<li>{}<span class="tr">{}</span><span class="v">{}</span></li>').format(
        who(facts, seat.corner), Markup().join(parts), blank
    )
