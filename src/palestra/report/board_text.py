"""The scoreboard as text for a terminal: a Scoreboard in, lines out."""

from __future__ import annotations

from palestra.report.scoreboard import Line, Score, Scoreboard
from palestra.report.visible import visible
from palestra.rules.units import DOLLAR, HOUR, SECOND, rounded, show_dollars, show_share, show_t

SHORT = 3 * 3600 * 1_000_000


def board_text(board: Scoreboard) -> str:
    """Figures as of the board's instant; shares of the exam with their 95 % interval."""
    head = [
        "rank",
        "corner",
        "score (95 % interval)",
        "API spent",
        "GPU-time",
        "jobs",
        "nominations",
        "current",
    ]
    rows = [_row(board, line) for line in board.lines]
    total = ["", "all", "", *_used(board, board.api_spent, board.gpu_spent), str(sum(line.jobs for line in board.lines)),
             str(sum(line.nominations for line in board.lines)), ""]  # fmt: skip
    base = ["", "base model", show_score(board.base), "", "", "", "", ""]
    title = f"{board.title}: {board.stage}, as of {_t(board, board.at)}"
    foot = f"GPUs here are {board.gpu_kind}s; isolation: {board.isolation}. Run {board.run}, row {board.seq}."
    if board.isolation == "none":
        foot += " Agents were not sandboxed."
    return "\n".join([visible(title), "", *_table([head, *rows, total, base]), "", foot])


def _row(board: Scoreboard, line: Line) -> list[str]:
    score = show_score(line.score) if line.score is not None else f"unscored: {line.unscored_because}"
    name = visible(f"{line.corner} {line.name}" + (f" ({line.lab})" if line.lab else ""))
    current = "none"
    if line.current:
        current = f"{line.current} {line.kind} since {_t(board, line.current_since or board.start)}"
    return [
        str(line.rank) if line.rank is not None else "-", name, score,
        *_used(board, line.api_spent, line.gpu_spent), str(line.jobs), str(line.nominations), current,
    ]  # fmt: skip


def show_score(score: Score | None) -> str:
    """`74.1 % (71.3 to 76.7), 741 of 1,000`."""
    if score is None:
        return "-"
    interval = f"{100 * score.low:.1f} to {100 * score.high:.1f}"
    return f"{show_share(score.correct, score.n)} ({interval}), {score.correct:,} of {score.n:,}"


def _t(board: Scoreboard, at: int) -> str:
    return show_t(at, board.start, seconds=board.at - board.start < SHORT)


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _used(board: Scoreboard, dollars: int, gpu_time: int) -> tuple[str, str]:
    """Amounts in one unit for the whole table, by how large the allowances are, so that rows can be compared at a glance."""
    small = all(line.api_limit < 10 * DOLLAR for line in board.lines)
    short = all(line.gpu_limit < 10 * HOUR for line in board.lines)
    time = f"{rounded(gpu_time, SECOND, 1)} GPU-s" if short else f"{rounded(gpu_time, HOUR, 2)} GPU-h"
    return show_dollars(dollars, 4 if small else 2), time
