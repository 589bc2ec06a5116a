"""The same key, the same answer: after a repetition, after a restart, and never for another question."""

from __future__ import annotations

import pytest
from tests.building import GB, Rehearsal, digest, events_of, spec

from palestra.events.nominations import AnswerSettings
from palestra.events.runs import Refused
from palestra.referee.observations import RefusalsRepeated
from palestra.referee.requests import (
    CancelJob,
    EndRun,
    Finish,
    Nominate,
    Pause,
    Receipt,
    Request,
    SealCheckpoint,
    SubmitJob,
)  # fmt: skip
from palestra.rules.errors import Refusal
from palestra.rules.units import Bytes

W = digest("w1")
KEYED: list[Request] = [
    SubmitJob("A", "k1", spec()),
    SealCheckpoint("A", "k1", W, "out/w1", Bytes(GB), 3),
    Nominate("A", "k1", W, "out/w1", Bytes(GB), AnswerSettings()),
    CancelJob("A", "k1", "A-j1"),
    Finish("A", "k1"),
    Pause("organiser:one", "k1", "a node is down"),
    EndRun("organiser:one", "k1", "enough"),
]


@pytest.fixture
def run() -> Rehearsal:
    run = Rehearsal()
    run.submit(gpus=8)
    return run


@pytest.mark.parametrize("request_", KEYED, ids=lambda request: type(request).__name__)
def test_a_repeated_request_gets_its_receipt_and_writes_nothing(run: Rehearsal, request_: Request) -> None:
    first = run.ask(request_)
    assert isinstance(first, Receipt)
    rows = len(run.rows)
    for _ in range(2):
        again = run.ask(request_)
        assert again == Receipt(first.kind, first.id, first.seq, repeated=True)
    assert len(run.rows) == rows
    run.restart()
    assert run.ask(request_) == Receipt(first.kind, first.id, first.seq, repeated=True)


@pytest.mark.parametrize("request_", KEYED, ids=lambda request: type(request).__name__)
def test_a_key_used_for_something_else_is_refused(run: Rehearsal, request_: Request) -> None:
    run.grant(request_)
    refusal = run.refuse(CancelJob(request_.actor, "k1", "A-j99"))
    assert (refusal.code, refusal.subject) == ("key_reused", "key")
    assert "make a new key" in str(refusal)


def test_keys_are_each_asker_s_own(run: Rehearsal) -> None:
    first = run.grant(SubmitJob("A", "k1", spec()))
    second = run.grant(SubmitJob("B", "k1", spec()))
    assert (first, second) == ("A-j2", "B-j1")


def test_a_refusal_is_repeated_too_also_after_a_restart(run: Rehearsal) -> None:
    asked = SubmitJob("A", "k1", spec(gpus=9))
    first = run.refuse(asked)
    again = run.refuse(asked)
    assert (again.code, str(again)) == (first.code, str(first))
    run.restart()
    assert run.refuse(asked).code == first.code


def test_the_first_no_is_written_and_its_repetitions_are_counted(run: Rehearsal) -> None:
    for _ in range(5):
        run.refuse(SubmitJob("A", None, spec(gpus=9)))
    run.refuse(SubmitJob("B", None, spec(gpus=9)))
    refused = [event for event in events_of(run.rows) if isinstance(event, Refused)]
    assert [(one.corner, one.code, one.about) for one in refused] == [
        ("A", "gpus_out_of_range", "gpus"),
        ("B", "gpus_out_of_range", "gpus"),
    ]
    assert run.book.repeats() == [RefusalsRepeated("A", "gpus_out_of_range", "gpus", 4)]
    assert run.book.repeats() == []


def test_a_no_to_an_organiser_isn_t_written(run: Rehearsal) -> None:
    rows = len(run.rows)
    answers = [run.ask(EndRun("organiser:one", None, "now")), run.ask(EndRun("organiser:one", None, "now"))]
    assert isinstance(answers[1], Refusal)
    assert not any(row.kind == "Refused" for row in run.rows[rows:])


def test_a_no_about_something_endless_is_cut_before_it_is_written(run: Rehearsal) -> None:
    """What an entrant sends is hostile: an event holds at most 2 KiB of it."""
    run.refuse(CancelJob("A", None, "x" * 100_000))
    assert len(run.rows[-1].body) < 8_192
