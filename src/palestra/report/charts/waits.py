"""The longest waits in the queue, each bar in parts by what the job waited for; HTML out."""

from __future__ import annotations

from markupsafe import Markup

from palestra.report.drawing import Chart, part
from palestra.report.evidence import Evidence
from palestra.report.facts import Facts, JobFacts
from palestra.report.words import capital, number, own, plural, resource, span

MOST = 8
RESOURCES = ("gpus", "memory", "running_cap", "gpu_time", "paused", "")


def draw(facts: Facts, evidence: Evidence) -> Chart:
    """From submission to start, and again after each preemption; a wait that goes on ends at the report's instant."""
    jobs = [job for seat in facts.corners for job in facts.jobs_of(seat.corner)]
    waited = sorted((job for job in jobs if job.waited > 0), key=lambda job: (-job.waited, job.job))
    shown = waited[:MOST]
    top = max((job.waited for job in shown), default=1)
    rows = [_row(facts, evidence, job, top) for job in shown]
    seen = [name for name in RESOURCES if any(one.resource == name for job in shown for one in job.spells)]
    legend = [
        Markup('<li><i class="sq r-{}"></i>{}</li>').format(
            name or "none", capital(resource(name, facts.unit))
        )
        for name in seen
    ]
    body = Markup('<ul class="leg">{}</ul><ul class="bars jobs">{}</ul>').format(
        Markup().join(legend), Markup().join(rows)
    )
    return Chart("waits", "Waiting for a place", _title(facts, jobs, shown), _sub(jobs, waited), body)


def _title(facts: Facts, jobs: list[JobFacts], shown: list[JobFacts]) -> str:
    if not jobs:
        return "No job was in the queue"
    if not shown:
        return "Every job started at once" if len(jobs) > 1 else "The only job started at once"
    longest = shown[0]
    name = max(
        RESOURCES,
        key=lambda name: sum(one.until - one.since for one in longest.spells if one.resource == name),
    )
    return f"The longest wait was {span(longest.waited)}, for {resource(name, facts.unit)}"


def _sub(jobs: list[JobFacts], waited: list[JobFacts]) -> str:
    if not waited:
        return "Nothing waited for room, for a cap or for a budget."
    at_once = len(jobs) - len(waited)
    left_out = f" The {MOST} longest are shown." if len(waited) > MOST else ""
    return f"{capital(number(at_once))} of {plural(len(jobs), 'job')} started at once; {number(len(waited))} had to wait.{left_out}"


def _row(facts: Facts, evidence: Evidence, job: JobFacts, top: int) -> Markup:
    rows = [job.submitted.row, *(one.row for one in job.spells), *(run.started.row for run in job.runs)]
    place = evidence.cite(rows, f"Wait of {job.job}")
    parts = []
    for name in RESOURCES:
        length = sum(one.until - one.since for one in job.spells if one.resource == name)
        if length:
            said = f"{span(length)} for {resource(name, facts.unit)}"
            parts.append(
                Markup(
                    '<a class="bar r-{}" style="width:{}" data-v="{}" href="{}" title="{}" aria-label="{}"></a>'
                ).format(name or "none", part(length, top), length, place, said, said)
            )
    goes_on = "" if job.runs or job.ended else " so far"
    return Markup(
        '<li><span class="who"><b class="cn c-{0}">{0}</b><span>{1}<small>{2}</small></span></span>'
        '<span class="tr">{3}</span><a class="v" href="{4}">{5}{6}</a></li>'
    ).format(job.corner, job.job, own(job.name, 30), Markup().join(parts), place, span(job.waited), goes_on)
