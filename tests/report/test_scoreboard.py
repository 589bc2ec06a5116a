"""The scoreboard: ranks by the exam, ties shared, the unscored unranked, totals from the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from tests.building import RUN, START, Rehearsal, competition
from tests.world import play_out

from palestra.report.intervals import wilson
from palestra.report.scoreboard import Scoreboard, board_bytes, scoreboard
from palestra.rules.competition import EntrantRule
from palestra.rules.prices import Usage
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Moment, adds_up, show_dollars, show_share
from palestra.runtime.book import Book


def judged(scores: Mapping[str, int | None], order: str = "ABCD", nominated: str = "ABCD") -> Scoreboard:
    """Corners nominate an hour apart in this order and get these scores of 1,000."""
    entrants = tuple(EntrantRule(f"Agent {corner}", model="small") for corner in "ABCD")
    run = Rehearsal(competition(entrants=entrants))
    for number, corner in enumerate(order):
        run.at = Moment(START + number * HOUR)
        if corner in nominated:
            run.accept(run.nominate(corner, f"w{corner}"))
    play_out(run, {"base": 200, **scores})
    return scoreboard(run.state, run.book.catalog)


def ranks(board: Scoreboard) -> list[tuple[str, int | None]]:
    """Corners as listed, with their ranks."""
    return [(line.corner, line.rank) for line in board.lines]


def test_f36_what_has_no_score_is_never_ranked() -> None:
    """Scores {83.1, not a number, none, 0}: ranks 1 and 2, the others listed as unscored, with why."""
    board = judged({"A": None, "B": 0, "C": 831}, nominated="ABC")
    assert ranks(board) == [("C", 1), ("B", 2), ("A", None), ("D", None)]
    assert [line.unscored_because for line in board.lines] == ["", "", "not_served", "no nomination"]
    assert board.lines[1].score is not None
    assert board.lines[1].score.correct == 0


def test_f39_equal_scores_share_a_rank_and_the_earlier_request_is_listed_first() -> None:
    """A 83.1 at 10:00, B 83.1 at 11:00, C 80: ranks 1, 1, 3; and the other way round when B was first."""
    scores = {"A": 831, "B": 831, "C": 800, "D": 900}
    assert ranks(judged(scores)) == [("D", 1), ("A", 2), ("B", 2), ("C", 4)]
    assert ranks(judged(scores, order="BACD")) == [("D", 1), ("B", 2), ("A", 2), ("C", 4)]


def test_the_base_stands_beside_the_ranking_not_in_it() -> None:
    board = judged({"A": 100, "B": 300, "C": 400, "D": 500})
    assert board.base is not None
    assert board.base.correct == 200
    assert [line.corner for line in board.lines] == ["D", "C", "B", "A"]


def test_s10_totals_come_from_the_ledger_unrounded() -> None:
    """Rows of $0.0033 print as $0.00 each; the total is what was spent, and prints as that."""
    entrants = tuple(EntrantRule(f"Agent {corner}", model="small") for corner in "ABCD")
    run = Rehearsal(competition(entrants=entrants))
    for corner in "ABCD":
        run.answer(run.reserve(corner, bound=1_000, cap=500), None)
        run.at = Moment(run.at + MINUTE)
        run.exit(run.submit(corner, gpus=3))
    board = scoreboard(run.state, run.book.catalog)
    accounts = run.state.accounts
    assert board.api_spent == sum(accounts[corner, "api"].spent for corner in "ABCD") == 4 * 3_250_000
    assert board.gpu_spent == sum(accounts[corner, "gpu"].spent for corner in "ABCD") == 12 * MINUTE
    rows = [show_dollars(line.api_spent, 3).strip("$") for line in board.lines]
    total = show_dollars(board.api_spent, 3).strip("$")
    assert (rows, total) == (["0.003"] * 4, "0.013")
    assert adds_up(rows, total)


def test_s61_a_share_is_rounded_once_when_it_is_shown() -> None:
    """$184.96 of $300 is 61.7 %, not 62 %: the board holds nano-dollars, not percentages."""
    run = Rehearsal(competition(api_credit=300 * DOLLAR))
    left = 18_496 * DOLLAR // 100
    while left:
        bound = min(left, DOLLAR) // 1_250
        call = run.reserve(bound=bound, cap=None)
        run.answer(call, Usage(cache_write=bound))
        left -= bound * 1_250
    line = scoreboard(run.state, run.book.catalog).lines[0]
    assert (line.api_spent, line.api_limit) == (184_960_000_000, 300 * DOLLAR)
    assert show_share(line.api_spent, line.api_limit) == "61.7 %"
    assert show_share(line.api_spent, line.api_limit, 2) == "61.65 %"


def test_counts_are_of_all_jobs_and_nominations_whatever_became_of_them() -> None:
    run = Rehearsal()
    run.exit(run.submit(), 1)
    run.exit(run.submit(), 0)
    run.submit()
    for weights in ("w1", "w2"):
        run.accept(run.nominate("A", weights))
    line = scoreboard(run.state, run.book.catalog).lines[0]
    assert (line.jobs, line.nominations, line.current, line.kind) == (3, 2, "A-n2", "lora")
    assert (line.rank, line.unscored_because) == (None, "not yet")


def test_under_an_alias_the_board_never_shows_the_true_name() -> None:
    entrants = (EntrantRule("True Name", "True Lab", alias="Owl", model="small"),)
    run = Rehearsal(competition(entrants=entrants))
    text = board_bytes(run.state, run.book.catalog)
    assert b"Owl" in text
    assert b"True" not in text
    assert not any(b"True" in row.body for row in run.rows)


def test_a_journal_read_again_gives_the_same_bytes() -> None:
    run = Rehearsal()
    run.accept(run.nominate())
    play_out(run, {"A": 700, "base": 200})
    again = Book(RUN)
    again.load(run.rows)
    assert board_bytes(again.state, again.catalog) == board_bytes(run.state, run.book.catalog)


def test_wilson_s_interval_holds_its_share_and_stays_within_0_and_1() -> None:
    """Against the figures of the formula's common table: 0 of 10 is 0 to 27.8 %, 5 of 10 is 23.7 to 76.3 %."""
    assert [round(bound, 3) for bound in wilson(0, 10)] == [0.0, 0.278]
    assert [round(bound, 3) for bound in wilson(5, 10)] == [0.237, 0.763]
    assert [round(bound, 3) for bound in wilson(10, 10)] == [0.722, 1.0]
    assert wilson(0, 0) == (0.0, 1.0)
    for correct in range(101):
        low, high = wilson(correct, 100)
        assert 0 <= low <= correct / 100 <= high <= 1
