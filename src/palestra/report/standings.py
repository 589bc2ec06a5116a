"""The scoreboard of a report: facts in, rows of shown figures out, with totals computed unrounded and a note on rounding."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from markupsafe import Markup

from palestra.report.badges import Badge, badges
from palestra.report.columns import Column, dollars, gpu_time
from palestra.report.drawing import part
from palestra.report.evidence import Evidence
from palestra.report.facts import Budget, CornerFacts, Facts, Rows
from palestra.report.pace import ahead
from palestra.report.scoreboard import Line, Score
from palestra.report.words import capital, own, percent


class Result(msgspec.Struct, frozen=True):
    """An exam's result with its 95 % interval, places in per cent."""

    shown: Markup
    interval: str
    low: str
    high: str
    at: str


class Meter(msgspec.Struct, frozen=True):
    """A budget in a cell."""

    shown: Markup
    share: str
    used: str
    held: str
    pace: str
    ahead: bool


class Row(msgspec.Struct, frozen=True):
    """One corner; a cell that is None is blank: it hadn't started (S53)."""

    corner: str
    name: str
    lab: str
    badges: tuple[Badge, ...]
    start: str
    kinds: tuple[str, ...]
    rank: int | None
    result: Result | None
    unscored: str
    api: Meter | None
    gpu: Meter | None
    jobs: Markup | None
    nominations: Markup | None
    current: str
    since: Markup | None


class Standings(msgspec.Struct, frozen=True):
    """The table and what stands below it."""

    scored: bool
    scale: str
    late: bool
    rows: tuple[Row, ...]
    base: Result | None
    api_total: Markup
    gpu_total: Markup
    jobs_total: int
    nominations_total: int
    notes: tuple[str, ...]


def standings(facts: Facts, evidence: Evidence) -> Standings:
    """Everything as of the report's instant; totals are the ledger's, unrounded (S10, S88)."""
    board = facts.board
    api = dollars([line.api_spent for line in board.lines])
    gpu = gpu_time(
        [line.gpu_spent for line in board.lines], [line.gpu_limit for line in board.lines], facts.unit
    )
    lines = {line.corner: line for line in board.lines}
    order = [line.corner for line in board.lines]
    order += [seat.corner for seat in facts.corners if seat.corner not in lines]
    scores = [score for score in (board.base, *(line.score for line in board.lines)) if score is not None]
    scale = _scale(scores)
    rows = tuple(_row(facts, evidence, facts.corner(one), lines.get(one), api, gpu, scale) for one in order)
    spent = [seat.api for seat in facts.corners if seat.api]
    used = [seat.gpu for seat in facts.corners if seat.gpu]
    base_row: Rows = tuple(sat.row for sat in facts.exams if sat.target == "base")
    return Standings(
        scored=bool(scores),
        scale=scale.said(),
        late=any(seat.late for seat in facts.corners),
        rows=rows,
        base=_result(board.base, scale, base_row, evidence, "Exam of the base model"),
        api_total=evidence.link(
            api.show(board.api_spent), [row for one in spent for row in one.rows()], "API credit spent by all"
        ),
        gpu_total=evidence.link(
            gpu.show(board.gpu_spent),
            [row for one in used for row in one.rows()],
            f"{capital(facts.unit)}-time spent by all",
        ),
        jobs_total=sum(line.jobs for line in board.lines),
        nominations_total=sum(line.nominations for line in board.lines),
        notes=_notes(facts, api, gpu),
    )


def _row(
    facts: Facts,
    evidence: Evidence,
    seat: CornerFacts,
    line: Line | None,
    api: Column,
    gpu: Column,
    scale: Scale,
) -> Row:
    there = line is not None and seat.api is not None
    mine = [one for one in facts.nominations if one.corner == seat.corner]
    current = next((one for one in mine if one.current), None)
    kinds = tuple(dict.fromkeys(one.kind for one in mine if one.kind and one.state == "accepted"))
    jobs = [job.submitted.row for job in facts.jobs if job.corner == seat.corner]
    sat: Rows = tuple(one.row for one in facts.exams if line is not None and one.target == line.current)
    return Row(
        corner=seat.corner,
        name=own(seat.name, 60),
        lab=own(seat.lab, 60),
        badges=badges(facts, seat),
        start=facts.t(seat.joined.at) if seat.joined else "",
        kinds=kinds,
        rank=line.rank if line else None,
        result=_result(line.score, scale, sat, evidence, f"Exam of {seat.corner}") if line else None,
        unscored=line.unscored_because.replace("_", " ") if line else "not started",
        api=_meter(evidence, facts, seat, seat.api, api, "API credit"),
        gpu=_meter(evidence, facts, seat, seat.gpu, gpu, f"{capital(facts.unit)}-time"),
        jobs=evidence.link(f"{len(jobs):,}", jobs, f"Jobs of {seat.corner}") if there else None,
        nominations=evidence.link(
            f"{len(mine):,}", [one.requested.row for one in mine], f"Nominations of {seat.corner}"
        )
        if there
        else None,
        current=f"{current.nomination}{f' “{own(current.label, 40)}”' if current.label else ''}"
        if current
        else "",
        since=evidence.link(
            facts.t(current.requested.at), [current.requested.row], f"Request of {current.nomination}"
        )
        if current
        else None,
    )


def _meter(
    evidence: Evidence, facts: Facts, seat: CornerFacts, one: Budget | None, column: Column, what: str
) -> Meter | None:
    if one is None:
        return None
    paced = seat.pace is not None and not seat.done and facts.is_running
    return Meter(
        shown=evidence.link(column.show(one.spent), one.rows(), f"{what} spent by {seat.corner}"),
        share=percent(one.spent, one.limit),
        used=part(one.spent, one.limit),
        held=part(one.held, one.limit),
        pace=part(seat.pace.gone, seat.pace.whole) if paced and seat.pace else "",
        ahead=bool(paced and seat.pace and ahead(one.spent, one.limit, seat.pace)),
    )


def _result(score: Score | None, scale: Scale, rows: Rows, evidence: Evidence, what: str) -> Result | None:
    if score is None:
        return None
    shown = evidence.link(percent(score.correct, score.n), rows, what)
    interval = f"{100 * score.low:.1f} to {100 * score.high:.1f}"
    share = score.correct / max(1, score.n)
    return Result(shown, interval, scale.place(score.low), scale.rest(score.high), scale.place(share))


class Scale(msgspec.Struct, frozen=True):
    """The stretch of shares that intervals are drawn on: the same for all of them."""

    low: float
    high: float

    def place(self, share: float) -> str:
        """Per cent from the left."""
        return f"{100 * (share - self.low) / (self.high - self.low):.3f}%"

    def rest(self, share: float) -> str:
        """Per cent from the right."""
        return f"{100 * (self.high - share) / (self.high - self.low):.3f}%"

    def said(self) -> str:
        """Its ends."""
        return f"drawn from {100 * self.low:.0f} to {100 * self.high:.0f} %"


def _scale(scores: list[Score]) -> Scale:
    """Wide enough for every interval, in steps of five points."""
    low, high = min((one.low for one in scores), default=0), max((one.high for one in scores), default=1)
    return Scale(max(0, int(20 * low)) / 20, min(20, int(20 * high) + 1) / 20)


def _notes(facts: Facts, api: Column, gpu: Column) -> tuple[str, ...]:
    board = facts.board
    notes = [
        f"Totals are computed unrounded, from the ledger, and rounded once: exactly {api.exact(board.api_spent)} of API "
        f"credit and {gpu.exact(board.gpu_spent)}."
    ]
    for what, column, amounts, total in (
        ("API spent", api, [line.api_spent for line in board.lines], board.api_spent),
        (f"{facts.unit}-time", gpu, [line.gpu_spent for line in board.lines], board.gpu_spent),
    ):
        printed = sum(Decimal(column.number(amount).replace(",", "")) for amount in amounts)
        if printed != Decimal(column.number(total).replace(",", "")):
            notes.append(
                f"The printed rows of {what} add up to {column.before}{printed:,}{column.after}: each is rounded on its own."
            )
    if any(line.rank for line in board.lines):
        notes.append(
            "Equal scores share a rank. Where two intervals overlap, the order between them is not settled."
        )
    return tuple(notes)
