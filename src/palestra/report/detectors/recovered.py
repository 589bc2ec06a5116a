"""Corners that got a model accepted after things had gone wrong: facts in, one finding a corner out."""

from __future__ import annotations

from palestra.report.facts import Facts, NominationFacts
from palestra.report.findings import Figure, Finding, escape
from palestra.report.words import kind, listed, named, plural

VERSION = 1
BAD = ("failed", "out_of_memory", "timed_out", "completed_without_output")


def detect(facts: Facts) -> list[Finding]:
    """The first acceptance inside the window that came after a rejection, or after two other troubles."""
    found = []
    for seat in facts.corners:
        good = [
            one for one in facts.nominations
            if one.corner == seat.corner and one.state == "accepted" and one.decided and facts.window.holds(one.decided.at)
        ]  # fmt: skip
        for one in sorted(good, key=lambda one: one.requested.at):
            finding = _finding(facts, one)
            if finding is not None:
                found.append(finding)
                break
    return found


def _finding(facts: Facts, one: NominationFacts) -> Finding | None:
    assert one.decided is not None
    before = one.requested.row
    jobs = [
        job.ended.row for job in facts.jobs
        if job.corner == one.corner and job.end in BAD and job.ended and job.ended.row < before
    ]  # fmt: skip
    turned_down = [
        other.decided.row for other in facts.nominations
        if other.corner == one.corner and other.state == "rejected" and other.decided and other.decided.row < one.decided.row
    ]  # fmt: skip
    refused = [
        row
        for no in facts.refusals
        if no.corner == one.corner and no.code != "paused"
        for row in no.rows
        if row < before
    ]
    if not turned_down and len(jobs) + len(refused) < 2:
        return None
    name = escape(named(facts, [one.corner]))
    sorts = (
        ("refused", tuple(refused), "refusal", "refusals"),
        ("jobs", tuple(jobs), "job that ended badly", "jobs that ended badly"),
        ("rejected", tuple(turned_down), "rejected nomination", "rejected nominations"),
    )
    met = [
        Figure(key, "count", len(rows), plural(len(rows), noun, nouns), rows)
        for key, rows, noun, nouns in sorts
        if rows
    ]
    after = listed(f"{{{figure.name}}}" for figure in met)
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
        said=f"After {after}, {name} nominated {one.nomination} at {{at}}, {kind(one)}; it was accepted at {{decided}}.",
        figures=(
            Figure("at", "moment", one.requested.at, facts.t(one.requested.at), (one.requested.row,)),
            Figure("decided", "moment", one.decided.at, facts.t(one.decided.at), (one.decided.row,)),
            *met,
        ),
    )
