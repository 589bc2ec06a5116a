"""The key findings as lines of text for a terminal: facts in, text out."""

from __future__ import annotations

from palestra.report.detectors import detect
from palestra.report.facts import Facts
from palestra.report.findings import choose
from palestra.report.words import own


def summary(facts: Facts) -> str:
    """One finding a line, most telling first, with the rows to look at."""
    chosen = choose(detect(facts))
    head = f"{own(facts.title, 80)}: {facts.window.name[:1].lower() if facts.window.name[1:2] != '+' else 'T'}{facts.window.name[1:]}, as of {facts.t(facts.at)}, row {facts.row:,}"
    if not chosen:
        return f"{head}\nNo detector saw anything to tell of."
    lines = [f"- {one.text(one.head)} {one.text(one.said)} (rows {_rows(one.rows)})" for one in chosen]
    return "\n".join([head, *lines])


def _rows(rows: tuple[int, ...]) -> str:
    shown = ", ".join(f"{row}" for row in rows[:6])
    return shown + (f" and {len(rows) - 6:,} more" if len(rows) > 6 else "")
