"""Cards: everything that ever was, for pages and reports; the referee never reads them."""

from __future__ import annotations

import ast
import inspect

from tests.building import START, Rehearsal

from palestra.referee import (
    exams,
    jobs,
    nominate,
    opening,
    repeat,
    rulings,
    schedule,
    seats,
    sessions,
    spend,
    stages,
)
from palestra.referee.requests import CancelJob
from palestra.rules.units import MINUTE, Moment


def test_a_job_s_card_holds_every_attempt_with_its_end() -> None:
    run = Rehearsal()
    job = run.submit(gpus=2)
    run.grant(CancelJob("A", None, job))
    card = run.book.catalog.jobs[job]
    assert (card.submitted, card.attempts[0].stopping, card.ended) == (START, "cancelled", None)
    run.at = Moment(START + MINUTE)
    run.exit(job, 143)
    card = run.book.catalog.jobs[job]
    assert card.ended is not None and card.attempts[0].ended is not None
    assert (card.ended.end, card.ended_at) == ("cancelled", START + MINUTE)
    assert card.attempts[0].ended.charge == 2 * MINUTE


def test_calls_and_steps_are_tallied_by_corner() -> None:
    run = Rehearsal()
    run.answer(run.reserve("A"), None)
    tally = run.book.catalog.tallies["A"]
    assert (tally.calls, tally.estimated) == (1, 1)
    assert "B" not in run.book.catalog.tallies


def test_of_a_corner_s_nomination_cards_one_is_current() -> None:
    run = Rehearsal()
    for weights in ("w1", "w2"):
        run.accept(run.nominate("A", weights))
    cards = run.book.catalog.nominations.values()
    assert [(card.nomination, card.current) for card in cards] == [("A-n1", False), ("A-n2", True)]


def test_the_referee_never_reads_the_catalogue() -> None:
    rooms = (exams, jobs, nominate, opening, repeat, rulings, schedule, seats, sessions, spend, stages)
    for room in rooms:
        for node in ast.walk(ast.parse(inspect.getsource(room))):
            assert not (isinstance(node, ast.ImportFrom) and (node.module or "").endswith("catalog")), room
