"""The referee as a whole: every request has a rule, every fact is taken, and taken once; strangers are only noted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.building import GB, LORA, SEED, START, Rehearsal, competition, digest, open_run, spec
from tests.world import end_of_running, settle

from palestra.events.base import Event
from palestra.events.nominations import AnswerSettings
from palestra.events.runs import (
    AlarmCleared,
    AlarmRaised,
    ObservationIgnored,
    RefusalsCounted,
    ReportFrozen,
    TailRepaired,
)
from palestra.referee import observations as seen
from palestra.referee import requests as asked
from palestra.referee.observations import Observation
from palestra.referee.rulings import follow, next_due, observe, rule
from palestra.rules.errors import Refusal
from palestra.rules.units import MINUTE, Bytes
from palestra.state.arena import State

FACTS: list[Observation] = [
    seen.Tick(),
    seen.ServerDown(1, "stop"),
    seen.ServerDown(1, "gone"),
    seen.CallAnswered("A-c1", None, 200, "stop"),
    seen.CallUnused("A-c1", "429", 429),
    seen.AttemptExited("A-j1.1", 0, START, START),
    seen.AttemptLost("A-j1.1"),
    seen.SessionExited("A-s1", 1, MINUTE),
    seen.SessionLost("A-s1"),
    seen.CopyDone("A-n1.c1", digest("w1"), Bytes(GB), LORA),
    seen.CopyBroke("A-n1.c1", "unchanged_copy", "every tensor equals the base's"),
    seen.Probed("B-n1", served=True, probes=8, stopped=8),
    seen.Trouble("disk:n1", "filling up"),
    seen.TroubleOver("clock_drift:server"),
    seen.DocumentFrozen("daily", digest("a page"), 3),
]
COUNTED: list[tuple[Observation, type[Event]]] = [
    (seen.RefusalsRepeated("A", "queue_full", "", 3), RefusalsCounted),
    (seen.TailSetAside(17, "journal.db-wal.torn"), TailRepaired),
]
STRANGERS: list[Observation] = [
    seen.CallAnswered("A-c9", None, 200, "stop"),
    seen.CallUnused("A-c9", "429", 429),
    seen.AttemptExited("A-j9.1", 0, START, START),
    seen.AttemptLost("A-j9.1"),
    seen.SessionExited("A-s9", 1, MINUTE),
    seen.SessionLost("A-s9"),
    seen.CopyDone("A-n9.c1", digest("w1"), Bytes(GB), LORA),
    seen.CopyBroke("A-n9.c1", "unchanged_copy", ""),
    seen.Probed("A-n9", served=True),
    seen.QuestionsMade(SEED, digest("questions"), 10),
    seen.ExamGraded("x9", 1, 10, digest("answers")),
    seen.ExamBroke("x9", "not_served", ""),
]


def kind(fact: object) -> str:
    """For test ids."""
    return type(fact).__name__


@pytest.fixture
def busy() -> Rehearsal:
    """Everything is open at once: a call, a job, agents, a copy, a validation whose probes can be read, an alarm."""
    run = Rehearsal()
    run.reserve("A")
    run.submit("A")
    run.nominate("A", "w1")
    served = run.nominate("B", "w2")
    run.copied(served)
    run.exit(run.state.nominations[served].job)
    run.tell(seen.Trouble("clock_drift:server", "2.1 s"))
    return run


@pytest.mark.parametrize("fact", FACTS, ids=kind)
def test_a_fact_told_twice_changes_nothing_the_second_time(busy: Rehearsal, fact: Observation) -> None:
    first = busy.tell(fact)
    assert not any(isinstance(event, ObservationIgnored) for event in first)
    assert first or isinstance(fact, seen.Tick)
    before = busy.state.copy()
    second = busy.tell(fact)
    assert all(isinstance(event, ObservationIgnored) for event in second)
    before.seq = busy.state.seq
    assert busy.state == before


@pytest.mark.parametrize(("fact", "event"), COUNTED, ids=kind)
def test_a_count_is_written_each_time_it_is_told(
    busy: Rehearsal, fact: Observation, event: type[Event]
) -> None:
    assert isinstance(busy.tell(fact)[0], event)
    assert isinstance(busy.tell(fact)[0], event)


@pytest.mark.parametrize("fact", STRANGERS, ids=kind)
def test_a_fact_about_nobody_is_noted_and_no_more(busy: Rehearsal, fact: Observation) -> None:
    before = busy.state.copy()
    (event,) = busy.tell(fact)
    assert isinstance(event, ObservationIgnored)
    assert event.what == kind(fact)
    before.seq = busy.state.seq
    assert busy.state == before


def test_every_fact_there_is_was_told_in_these_tests() -> None:
    told = {type(fact) for fact in [*FACTS, *STRANGERS, *(fact for fact, _ in COUNTED)]}
    assert set(Observation.__subclasses__()) == told | {seen.ServerUp}


def test_a_fact_without_a_rule_is_a_fault_of_ours() -> None:
    class Unheard(Observation, frozen=True):
        """Nobody takes it."""

    with pytest.raises(TypeError, match="Unheard"):
        observe(State(), Unheard(), START)


def test_every_request_there_is_has_a_rule() -> None:
    run = Rehearsal()
    samples: dict[type[asked.Request], Callable[[], asked.Request]] = {
        asked.OpenRun: lambda: open_run(competition()),
        asked.Pause: lambda: asked.Pause("organiser:one", None, ""),
        asked.Resume: lambda: asked.Resume("organiser:one", None),
        asked.EndRun: lambda: asked.EndRun("organiser:one", None, ""),
        asked.ReserveCall: lambda: asked.ReserveCall("A", None, "small", 1, 1),
        asked.SubmitJob: lambda: asked.SubmitJob("A", None, spec()),
        asked.CancelJob: lambda: asked.CancelJob("A", None, "A-j1"),
        asked.SealCheckpoint: lambda: asked.SealCheckpoint("A", None, digest("w"), "w", Bytes(1), 1),
        asked.Nominate: lambda: asked.Nominate("A", None, digest("w"), "w", Bytes(1), AnswerSettings()),
        asked.Finish: lambda: asked.Finish("A", None),
        asked.AddEntrant: lambda: asked.AddEntrant(
            "organiser:one", None, "Late", "", "house", "small", START
        ),
        asked.RemoveEntrant: lambda: asked.RemoveEntrant("organiser:one", None, "A", ""),
        asked.RotateToken: lambda: asked.RotateToken("organiser:one", None, "A"),
        asked.RestartEntrant: lambda: asked.RestartEntrant("organiser:one", None, "A", ""),
    }
    assert set(asked.Request.__subclasses__()) == set(samples)
    for make in samples.values():
        assert isinstance(rule(run.state, make(), run.at), list | Refusal)


def test_a_run_is_opened_once_and_strangers_have_no_seat() -> None:
    run = Rehearsal()
    assert run.refuse(open_run(competition())).code == "already_open"
    assert run.refuse(asked.SubmitJob("Z", None, spec())).code == "unknown_corner"
    assert run.refuse(asked.SubmitJob("house", None, spec())).code == "unknown_corner"


def test_before_a_run_is_opened_nothing_follows_and_nothing_is_due() -> None:
    assert (follow(State(), START), next_due(State())) == ([], None)


def test_while_no_server_is_there_nothing_follows() -> None:
    run = Rehearsal()
    run.tell(seen.ServerDown(1, "gone"))
    assert follow(run.state, end_of_running(run)) == []  # type: ignore[arg-type]


def test_a_server_that_was_followed_by_another_says_goodbye_in_vain() -> None:
    run = Rehearsal()
    run.restart()
    assert run.tell(seen.ServerDown(1, "gone")) == []
    assert run.state.clock.server == 2


def test_alarms_are_raised_and_cleared_once() -> None:
    run = Rehearsal()
    assert run.tell(seen.Trouble("disk:n1", "90 %")) == [AlarmRaised("disk:n1", "90 %")]
    assert run.tell(seen.Trouble("disk:n1", "95 %")) == [AlarmRaised("disk:n1", "95 %")]
    assert run.tell(seen.TroubleOver("disk:n1")) == [AlarmCleared("disk:n1")]
    assert run.tell(seen.TroubleOver("disk:n1")) == []


def test_a_document_is_frozen_again_only_when_it_differs() -> None:
    run = Rehearsal()
    settle(run)
    first = seen.DocumentFrozen("scoreboard", digest("one"), 7)
    assert run.tell(first) == [ReportFrozen("scoreboard", digest("one"), 7)]
    assert run.tell(first) == []
    assert len(run.tell(seen.DocumentFrozen("scoreboard", digest("two"), 9))) == 1
