"""Nominations at the referee: requested, copied, served, current in one step; the old one stands until then."""

from __future__ import annotations

import pytest
from tests.building import FULL, GB, LORA, START, Rehearsal, competition, digest, events_of
from tests.world import end_of_running, settle

from palestra.events.codec import Row
from palestra.events.nominations import (
    AnswerSettings,
    CheckpointSealed,
    CopyFailed,
    CopyKept,
    CopyStarted,
    NominationAccepted,
    NominationRejected,
    NominationRequested,
)  # fmt: skip
from palestra.events.runs import ObservationIgnored
from palestra.referee.observations import AttemptLost, CopyBroke, CopyDone, Probed, SessionExited
from palestra.referee.requests import CancelJob, Finish, Nominate, SealCheckpoint
from palestra.rules.units import HOUR, MINUTE, Bytes, Moment

WARM = AnswerSettings(temperature="0.7", system_prompt="Answer in one word.")


@pytest.fixture
def run() -> Rehearsal:
    return Rehearsal()


def nomination(weights: str, settings: AnswerSettings | None = None, corner: str = "A") -> Nominate:
    return Nominate(corner, None, digest(weights), f"out/{weights}", Bytes(GB), settings or AnswerSettings())


def currents(rows: list[Row]) -> list[str]:
    """What was current in corner A, change by change."""
    accepted = [event for event in events_of(rows) if isinstance(event, NominationAccepted) and event.current]
    return [event.nomination for event in accepted if event.corner == "A"]


def test_a_nomination_is_current_only_once_copied_and_served(run: Rehearsal) -> None:
    name = run.nominate()
    assert run.current("A") == ""
    run.copied(name)
    assert run.current("A") == ""
    run.probed(name)
    assert run.current("A") == name
    accepted = run.last(NominationAccepted)
    assert (accepted.current, accepted.probes, accepted.differing) == (True, 8, 5)


def test_s04_requested_copied_and_decided_are_three_times(run: Rehearsal) -> None:
    name = run.nominate()
    run.at = Moment(START + 124 * MINUTE)
    run.copied(name)
    run.at = Moment(START + 130 * MINUTE)
    run.probed(name)
    card = run.book.catalog.nominations[name]
    assert (card.requested, card.copied, card.decided) == (START, START + 124 * MINUTE, START + 130 * MINUTE)


def test_s03_killed_at_any_row_of_a_replacement_exactly_one_nomination_is_current() -> None:
    """The server dies after any row; its successor reads that much, the world goes on, and the new one takes over."""
    run = Rehearsal()
    old = run.nominate("A", "w1")
    run.accept(old)
    whole_from = len(run.rows)
    new = run.nominate("A", "w2")
    run.accept(new, FULL)
    for cut in range(whole_from, len(run.rows) + 1):
        again = Rehearsal()
        again.at = run.at
        again.restart(run.rows[:cut])
        assert again.current("A") in (old, new)
        accepted = [one.nomination for one in again.state.nominations.values() if one.state == "accepted"]
        assert accepted == [again.current("A")]
        settle(again)
        wanted = [old, new] if cut > whole_from else [old]
        assert currents(again.rows) == wanted, f"killed after row {cut}"
        assert again.current("A") == wanted[-1]


def test_s37_s90_a_checkpoint_is_nominable_whatever_its_job_is_doing(run: Rehearsal) -> None:
    """Sealed at step 100 of a job that still runs, then hangs till its limit: sealing and nominating don't ask."""
    job = run.submit()
    sealed = run.grant(SealCheckpoint("A", None, digest("step-100"), "out/step-100", Bytes(GB), 4, 100))
    assert (sealed, run.last(CheckpointSealed).step) == ("A-k1", 100)
    while_running = run.nominate("A", "step-100")
    run.accept(while_running)
    assert run.current("A") == while_running
    run.at = Moment(run.at + HOUR)
    run.exit(job, 143, ran=HOUR, over_time=True)
    after = run.nominate("A", "step-200")
    run.accept(after)
    assert run.current("A") == after


def test_s37_a_source_that_changes_during_the_copy_ends_it_and_the_old_one_stands(run: Rehearsal) -> None:
    old = run.nominate("A", "w1")
    run.accept(old)
    new = run.nominate("A", "w2")
    run.tell(CopyDone(f"{new}.c1", digest("something else"), Bytes(GB), LORA))
    assert (run.last(CopyFailed).code, run.last(NominationRejected).code) == (
        "source_changed",
        "source_changed",
    )
    assert run.current("A") == old


def test_s60_the_latest_request_wins_though_the_older_larger_copy_ends_later(run: Rehearsal) -> None:
    """Full requested 10:00, copied 12:00; LoRA requested 11:00, copied 11:05: current is the LoRA, also after 12:00."""
    full = run.nominate("A", "full", size=60 * GB)
    run.at = Moment(START + HOUR)
    lora = run.nominate("A", "lora")
    run.at = Moment(START + HOUR + 5 * MINUTE)
    run.accept(lora)
    assert run.current("A") == lora
    run.at = Moment(START + 2 * HOUR)
    run.accept(full, FULL)
    assert run.current("A") == lora
    late = run.last(NominationAccepted)
    assert (late.nomination, late.current) == (full, False)
    assert full not in run.state.nominations
    card = run.book.catalog.nominations[full]
    assert (card.state, card.current) == ("accepted", False)


def test_s67_same_weights_with_new_settings_are_current_without_a_second_reading(run: Rehearsal) -> None:
    """Settings are part of a nomination; the vault tells that it kept these weights before."""
    first = run.nominate("A", "w1")
    run.accept(first)
    second = run.nominate("A", "w1", settings=WARM)
    run.copied(second, again=True)
    assert (run.last(CopyKept).again, run.book.catalog.nominations[second].again) == (True, True)
    run.probed(second)
    assert run.current("A") == second
    assert run.state.nominations[second].settings == WARM


def test_the_same_weights_with_the_same_settings_are_nominated_once(run: Rehearsal) -> None:
    first = run.nominate("A", "w1")
    assert "on its way already, as A-n1" in str(run.refuse(nomination("w1")))
    run.accept(first)
    refusal = run.refuse(nomination("w1"))
    assert (refusal.code, "current already" in str(refusal)) == ("already_nominated", True)
    run.grant(nomination("w1", corner="B"))


def test_going_back_to_what_was_nominated_before_is_a_new_request(run: Rehearsal) -> None:
    for weights in ("w1", "w2"):
        run.accept(run.nominate("A", weights))
    back = run.nominate("A", "w1")
    run.accept(back)
    assert (back, run.current("A")) == ("A-n3", "A-n3")


@pytest.mark.parametrize("code", ["unchanged_copy", "not_loadable", "base_mismatch"])
def test_s98_an_unchanged_copy_is_rejected_and_the_old_one_stands(run: Rehearsal, code: str) -> None:
    old = run.nominate("A", "w1")
    run.accept(old)
    new = run.nominate("A", "base-again")
    run.tell(CopyBroke(f"{new}.c1", code, "all 290 tensors equal the base's"))
    rejected = run.last(NominationRejected)
    assert (rejected.nomination, rejected.code, rejected.message) == (
        new,
        code,
        "all 290 tensors equal the base's",
    )
    assert run.current("A") == old
    assert new not in run.state.nominations


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"served": False, "error": "the server ended before it listened"}, "not_served"),
        ({"empty": 8}, "empty_answers"),
        ({"looping": 8}, "looping_answers"),
    ],
)
def test_what_doesn_t_serve_or_answer_is_rejected(
    run: Rehearsal, facts: dict[str, object], code: str
) -> None:
    name = run.nominate()
    run.copied(name)
    run.probed(name, **facts)
    assert run.last(NominationRejected).code == code
    assert run.current("A") == ""


def test_a_few_empty_or_looping_answers_are_shown_not_held_against_it(run: Rehearsal) -> None:
    name = run.nominate()
    run.copied(name)
    run.probed(name, empty=7, looping=1, stopped=0)
    assert run.current("A") == name
    assert (run.last(NominationAccepted).empty, run.last(NominationAccepted).looping) == (7, 1)


def test_a_validation_the_world_lost_is_tried_again_without_the_entrant(run: Rehearsal) -> None:
    name = run.nominate()
    run.copied(name)
    job = run.state.nominations[name].job
    run.tell(AttemptLost(f"{job}.1"))
    assert run.state.jobs[job].attempt == f"{job}.2"
    run.probed(name)
    assert run.current("A") == name


def test_probes_count_only_once_their_own_job_is_over(run: Rehearsal) -> None:
    name = run.nominate()
    run.copied(name)
    assert run.tell(Probed(name, served=True, probes=8)) == [ObservationIgnored(name, "Probed")]
    assert run.current("A") == ""


def test_facts_about_a_copy_that_is_over_are_ignored(run: Rehearsal) -> None:
    name = run.nominate()
    run.accept(name)
    assert run.tell(CopyBroke(f"{name}.c1", "not_loadable", "late")) == [
        ObservationIgnored(f"{name}.c1", "CopyBroke")
    ]
    assert run.current("A") == name


def test_f53_one_second_before_the_end_is_in_time_and_the_end_itself_isn_t() -> None:
    """No tick has told the referee that the stage is over: the clock alone decides."""
    run = Rehearsal()
    run.at = Moment(end_of_running(run) - 1_000_000)
    run.grant(nomination("w1"))
    run.at = Moment(end_of_running(run) - 1)
    run.grant(nomination("w2"))
    run.at = Moment(end_of_running(run))
    assert run.refuse(nomination("w3")).code == "stage_over"


def test_f54_a_copy_in_flight_at_the_end_is_finished_in_closing_and_judged() -> None:
    run = Rehearsal(competition(closing=HOUR))
    old = run.nominate("A", "w1")
    run.accept(old)
    run.at = Moment(end_of_running(run) - 1)
    new = run.nominate("A", "w2")
    run.until(end_of_running(run))
    assert (run.stage(), run.current("A")) == ("closing", old)
    run.at = Moment(run.at + HOUR - 1)
    settle(run)
    assert run.current("A") == new
    assert run.stage() == "judging"


def test_f54_what_isn_t_checked_when_closing_ends_is_rejected_and_the_old_one_stands() -> None:
    run = Rehearsal(competition(closing=HOUR))
    old = run.nominate("A", "w1")
    run.accept(old)
    uncopied, unchecked = run.nominate("A", "w2"), run.nominate("B", "w3")
    run.copied(unchecked)
    run.until(end_of_running(run))
    for session in list(run.state.sessions):
        run.tell(SessionExited(session, 143, HOUR))
    run.until(run.at + HOUR)
    rejected = [event for event in events_of(run.rows) if isinstance(event, NominationRejected)]
    assert [(one.nomination, one.code) for one in rejected] == [
        (uncopied, "closing_over"),
        (unchecked, "closing_over"),
    ]
    assert (run.current("A"), run.current("B")) == (old, "")
    assert run.stage() == "judging"
    late = run.tell(CopyDone(f"{uncopied}.c1", digest("w2"), Bytes(GB), LORA))
    assert late == [ObservationIgnored(f"{uncopied}.c1", "CopyDone")]


def test_a_finished_entrant_s_pending_nomination_still_counts(run: Rehearsal) -> None:
    name = run.nominate()
    run.grant(Finish("A", None))
    run.accept(name)
    assert run.current("A") == name


def test_a_corner_has_a_most_of_pending_nominations(run: Rehearsal) -> None:
    for number in range(4):
        run.grant(nomination(f"w{number}"))
    assert run.refuse(nomination("w5")).code == "too_many_pending"
    run.accept("A-n1")
    run.grant(nomination("w5"))


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        (AnswerSettings(temperature="-0.1"), "temperature"),
        (AnswerSettings(temperature="nan"), "temperature"),
        (AnswerSettings(temperature="hot"), "temperature"),
        (AnswerSettings(top_p="0"), "top_p"),
        (AnswerSettings(repetition_penalty="3"), "repetition_penalty"),
        (AnswerSettings(max_tokens=0), "max_tokens"),
        (AnswerSettings(system_prompt="x" * 2_001), "system_prompt"),
        (AnswerSettings(stop=("",)), "stop"),
        (AnswerSettings(stop=("a", "b", "c", "d", "e")), "stop"),
    ],
)
def test_settings_out_of_range_are_named(run: Rehearsal, settings: AnswerSettings, subject: str) -> None:
    refusal = run.refuse(nomination("w1", settings))
    assert (refusal.code, refusal.subject) == ("bad_settings", subject)
    assert f"settings.{subject}" in str(refusal)


def test_nobody_cancels_the_arena_s_own_work(run: Rehearsal) -> None:
    run.copied(run.nominate())
    assert run.refuse(CancelJob("A", None, "house-j1")).code == "no_such_job"


def test_copies_begin_at_once_and_each_has_an_id_of_its_own(run: Rehearsal) -> None:
    run.nominate("A", "w1")
    run.nominate("B", "w2")
    started = [event for event in events_of(run.rows) if isinstance(event, CopyStarted | NominationRequested)]
    assert [event.subject for event in started] == ["A-n1", "A-n1.c1", "B-n1", "B-n1.c1"]
