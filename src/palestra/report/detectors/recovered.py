"""Corners that got a model accepted after things had gone wrong: facts in, one finding a corner out."""

from __future__ import annotations

from itertools import pairwise

from palestra.report.facts import Facts, NominationFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import kind, listed, named, plural

VERSION = 1
BAD = ("failed", "out_of_memory", "timed_out", "completed_without_output")


def detect(facts: Facts) -> list[Finding]:
    """A corner's first model accepted inside the window, after a rejection or two other troubles; or one after a rejection."""
    found = []
    for seat in facts.corners:
        good = [
            one
            for one in facts.nominations
            if one.corner == seat.corner and one.state == "accepted" and one.decided
        ]
        for earlier, one in pairwise([None, *good]):
            if one is None or one.decided is None or not facts.window.holds(one.decided.at):
                continue
            finding = _finding(facts, one, earlier.requested.row if earlier else 0)
            if finding is not None:
                found.append(finding)
                break
    return found


def _finding(facts: Facts, one: NominationFacts, after: int) -> Finding | None:
    """Trouble counts from the nomination before, which had gone well, to this one."""
    assert one.decided is not None
    before = one.requested.row
    jobs = [
        job.ended.row for job in facts.jobs
        if job.corner == one.corner and job.end in BAD and job.ended and after < job.ended.row < before
    ]  # fmt: skip
    turned_down = [
        other.decided.row for other in facts.nominations
        if other.corner == one.corner and other.state == "rejected" and other.decided
        and after < other.decided.row < one.decided.row
    ]  # fmt: skip
    noes = [
        no for no in facts.refusals
        if no.corner == one.corner and no.code != "paused" and after < no.rows[0] and no.rows[-1] < before
    ]  # fmt: skip
    refused = [row for no in noes for row in no.rows]
    times = sum(no.times for no in noes)
    if not turned_down and (after or len(jobs) + times < 2):
        return None
    name = escape(named(facts, [one.corner]))
    sorts = (
        ("refused", times, tuple(refused), "refusal", "refusals"),
        ("jobs", len(jobs), tuple(jobs), "job that ended badly", "jobs that ended badly"),
        ("rejected", len(turned_down), tuple(turned_down), "rejected nomination", "rejected nominations"),
    )
    met = [
        Figure(key, "count", many, plural(many, noun, nouns), rows)
        for key, many, rows, noun, nouns in sorts
        if rows
    ]
    trouble = listed(f"{{{figure.name}}}" for figure in met)
    return Finding(
        kind="recovered",
        version=VERSION,
        about=one.corner,
        corners=(one.corner,),
        severity=3,
        consequence=3,
        positive=True,
        big="at",
        title="Back on its feet",
        head=f"{name} came back from its mistakes, with {kind(one)} at {{at}}.",
        said=f"After {trouble}, {name} nominated {one.nomination} at {{at}}, {kind(one)}; it was accepted at {{decided}}.",
        figures=(
            Figure("at", "moment", one.requested.at, facts.t(one.requested.at), (one.requested.row,)),
            Figure("decided", "moment", one.decided.at, facts.t(one.decided.at), (one.decided.row,)),
            *met,
        ),
    )
