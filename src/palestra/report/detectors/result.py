"""Who came first in the exam, and by how much: facts in, at most one finding out."""

from __future__ import annotations

from palestra.report.facts import Facts, Rows
from palestra.report.findings import Figure, Finding, escape
from palestra.report.scoreboard import Line
from palestra.report.words import listed, named, percent
from palestra.rules.units import rounded

VERSION = 1


def detect(facts: Facts) -> list[Finding]:
    """Once the results are in and somebody has a score, and the exam ended inside the window."""
    ranked = [line for line in facts.board.lines if line.score is not None]
    entered = [stage for stage in facts.stages if stage.name == "results"]
    if not ranked or not entered or not facts.window.holds(entered[-1].since.at):
        return []
    first = [line for line in ranked if line.rank == 1]
    best = first[0].score
    assert best is not None
    corners = tuple(line.corner for line in first)
    rows = _rows(facts, tuple(line.current for line in first))
    names = escape(named(facts, corners))
    figures = [
        Figure("share", "share", best.correct, percent(best.correct, best.n), rows, best.n),
        Figure("correct", "count", best.correct, f"{best.correct:,} of {best.n:,}", rows, best.n),
    ]
    said = f"{names} {'has' if len(first) == 1 else 'share the first place with'} {{correct}} right."
    head = f"{names} {'comes first' if len(first) == 1 else 'share the first place'} with {{share}}"
    gain = _gain(facts, first[0], rows)
    if gain:
        figures += gain
        way = "above" if gain[1].amount >= 0 else "below"
        head += f", {{gain}} points {way} the base model"
        said += " The base model they all started from has {base}."
    close = [line for line in ranked if line not in first and line.score and line.score.high >= best.low]
    if close:
        others = escape(named(facts, [line.corner for line in close]))
        said += f" The 95\u00a0% interval of {others} overlaps with it, so that order is not settled."
    return [
        Finding(
            kind="result",
            version=VERSION,
            about=listed(corners),
            corners=corners,
            severity=5,
            consequence=4,
            positive=True,
            big="share",
            title="First in the hidden exam",
            head=f"{head}.",
            said=said,
            figures=tuple(figures),
        )
    ]


def _gain(facts: Facts, first: Line, rows: Rows) -> list[Figure]:
    base, best = facts.board.base, first.score
    if base is None or best is None:
        return []
    points, whole = best.correct * base.n - base.correct * best.n, best.n * base.n
    of_base = _rows(facts, ("base",))
    return [
        Figure("base", "share", base.correct, percent(base.correct, base.n), of_base, base.n),
        Figure("gain", "ratio", points, rounded(abs(100 * points), whole, 1), (*rows, *of_base), whole),
    ]


def _rows(facts: Facts, targets: tuple[str, ...]) -> Rows:
    return tuple(sat.row for sat in facts.exams if sat.target in targets)
