"""The scoreboard in a terminal: every figure of the board, aligned, with intervals and totals that add up."""

from __future__ import annotations

import re

from tests.building import Rehearsal, competition
from tests.world import play_out

from palestra.report.board_text import board_text, show_score
from palestra.report.intervals import wilson
from palestra.report.scoreboard import Score, Scoreboard, scoreboard
from palestra.rules.competition import EntrantRule
from palestra.rules.prices import Usage
from palestra.rules.units import HOUR, MINUTE, SECOND, adds_up


def board(run: Rehearsal) -> Scoreboard:
    return scoreboard(run.state, run.book.catalog)


def played() -> Rehearsal:
    """Two corners, a call, a job and a nomination each, to the end."""
    run = Rehearsal()
    for corner in "AB":
        call = run.reserve(corner)
        run.answer(call, Usage(fresh_input=1_000, output=777))
        job = run.submit(corner)
        run.wait(10 * MINUTE)
        run.exit(job, ran=10 * MINUTE)
        run.accept(run.nominate(corner, f"w{corner}"))
    play_out(run, {"base": 200, "A": 636, "B": 741})
    return run


def test_the_whole_board() -> None:
    """S58: nothing is divided by zero; F36: the base stands apart, without a rank."""
    said = board_text(board(played())).splitlines()
    assert said[0].startswith("Rehearsal: results, as of T+")
    assert (
        said[2].split()
        == "rank corner score (95 % interval) API spent GPU-time jobs nominations current".split()
    )
    assert said[3].startswith("1     B Agent Two (Lab Two)  74.1 % (71.3 to 76.7), 741 of 1,000  $0.00")
    assert said[4].startswith("2     A Agent One (Lab One)  63.6 % (60.6 to 66.5), 636 of 1,000  $0.00")
    assert said[3].endswith("B-n1 lora since T+0:20") and "0.17 GPU-h" in said[3]
    assert said[5].split()[0] == "all" and "0.33 GPU-h" in said[5]
    assert said[6].split("  ")[-1].strip() == "20.0 % (17.6 to 22.6), 200 of 1,000"
    assert said[-1] == (
        f"GPUs here are slots; isolation: none. Run rehearsal-00000000, row {board(played()).seq}. Agents were not sandboxed."
    )
    starts = [
        line.index(word) for line, word in zip(said[2:5], ("corner", "B Agent", "A Agent"), strict=True)
    ]
    assert len(set(starts)) == 1, "columns are aligned"


def test_before_anything_happened() -> None:
    """S58: an entrant who has done nothing is a row like any other."""
    said = board_text(board(Rehearsal()))
    assert "unscored: not yet" in said and "none" in said
    assert "base model" in said and "-" in said
    assert not re.search(r"nan|inf|None|Traceback", said)


def test_the_first_hours_show_seconds() -> None:
    """As of the last event: a board is made from rows alone."""
    for later, shown in ((83 * SECOND, "T+0:01:23"), (4 * HOUR, "T+4:00")):
        run = Rehearsal()
        run.wait(later)
        run.submit()
        assert board_text(board(run)).startswith(f"Rehearsal: running, as of {shown}\n")


def test_totals_differ_from_the_rows_by_rounding_alone() -> None:
    """S10, S88."""
    said = board_text(board(played())).splitlines()
    hours = [float(found[1]) for line in said[3:6] if (found := re.search(r"(\d+\.\d\d) GPU-h", line))]
    assert adds_up([f"{hour:.2f}" for hour in hours[:2]], f"{hours[2]:.2f}")


def test_scores_have_their_interval_and_their_n() -> None:
    low, high = wilson(741, 1_000)
    assert show_score(Score(741, 1_000, low, high)) == "74.1 % (71.3 to 76.7), 741 of 1,000"
    low, high = wilson(0, 3)
    assert show_score(Score(0, 3, low, high)) == "0.0 % (0.0 to 56.1), 0 of 3"
    assert show_score(None) == "-"


def test_names_cannot_act_on_the_terminal() -> None:
    entrants = (EntrantRule("Evil\x1b[2J\u202e", "Lab\x07", model="small"),)
    run = Rehearsal(competition(entrants=entrants))
    said = board_text(board(run))
    assert "Evil\\x1b[2J\\u202e (Lab\\x07)" in said
    assert all(char.isprintable() or char == "\n" for char in said)
