"""Jobs that waited long, and for what: facts in, one finding a corner out, about its longest wait."""

from __future__ import annotations

from palestra.report.facts import RULES, Facts, JobFacts, Rows
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import listed, named, own, resource, span
from palestra.rules.units import SECOND, Micros

VERSION = 1
PART, LEAST = 40, 5 * SECOND
"""Long is the running time over this: 3.6 h of six days, 6 s of four minutes, and never under five seconds."""


def detect(facts: Facts) -> list[Finding]:
    """Waits that ended inside the window or go on; pauses don't count, nobody is in anybody's way then."""
    long = facts.scaled(PART, LEAST)
    found = []
    for seat in facts.corners:
        mine = [job for job in facts.jobs if job.corner == seat.corner and _touches(facts, job)]
        over = [job for job in mine if in_the_way(job) >= long]
        if over:
            found.append(_finding(facts, max(over, key=in_the_way), len(over), mine, long))
    return found


def in_the_way(job: JobFacts) -> Micros:
    """Time in the queue without pauses."""
    return Micros(sum(one.until - one.since for one in job.spells if one.resource != "paused"))


def binding(job: JobFacts) -> str:
    """The resource that it waited for longest."""
    spans: dict[str, int] = {}
    for one in job.spells:
        if one.resource != "paused":
            spans[one.resource] = spans.get(one.resource, 0) + one.until - one.since
    return max(spans, key=lambda name: spans[name])


def _touches(facts: Facts, job: JobFacts) -> bool:
    return any(one.until > facts.window.since for one in job.spells) or facts.window.holds(job.submitted.at)


def _finding(facts: Facts, job: JobFacts, many: int, mine: list[JobFacts], long: Micros) -> Finding:
    name = escape(named(facts, [job.corner]))
    thing = resource(binding(job), facts.unit)
    rows: Rows = (job.submitted.row, *(one.row for one in job.spells), *(run.started.row for run in job.runs))
    rows = tuple(sorted(set(rows)))
    holders = sorted(
        {blocker for one in job.spells if one.resource == binding(job) for blocker in one.blockers}
    )
    goes_on = not job.runs and job.ended is None
    held = f", held by {listed(holders[:3])}{' and others' if len(holders) > 3 else ''}" if holders else ""
    said = f"{job.job} of {name}, “{escape(own(job.name, 40))}”, {'has waited' if goes_on else 'waited'} {{wait}} for {thing}{held}."
    if len(mine) > 1:
        said += " Of its {all} jobs {many} waited {long} or longer."
    waits = tuple(
        row for one in mine for row in (one.submitted.row, *(run.started.row for run in one.runs[:1]))
    )
    return Finding(
        kind="long_wait",
        version=VERSION,
        about=job.job,
        corners=(job.corner,),
        severity=3 if in_the_way(job) >= 3 * long else 2,
        consequence=2,
        big="wait",
        title=f"Longest wait, for {thing}",
        head=f"{name} waited {{wait}} for {thing}.",
        said=said,
        figures=(
            Figure("wait", "microseconds", in_the_way(job), span(in_the_way(job)), rows),
            Figure("many", "count", many, f"{many}", waits),
            Figure("all", "count", len(mine), f"{len(mine)}", tuple(one.submitted.row for one in mine)),
            Figure("long", "microseconds", long, span(long), RULES),
        ),
    )
