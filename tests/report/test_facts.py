"""A window's figures: equal to `verify`'s, half-open, as of one instant, blank where there was nothing yet."""

from __future__ import annotations

import pytest
from tests.building import START, Rehearsal, competition
from tests.report.reading import EVERY, GOLDEN, UTC, counted, facts_of, instants, rows_of
from tests.sealing import sealed
from tests.world import play_out

from palestra.events.codec import Row
from palestra.referee.requests import Finish
from palestra.report.facts import Facts
from palestra.report.gather import gather
from palestra.report.window import Asked
from palestra.rules.competition import EntrantRule
from palestra.rules.errors import BadInput
from palestra.rules.times import own_window
from palestra.rules.units import HOUR, MINUTE, Moment, show_t


def t(at: int) -> str:
    """An instant as the command takes it."""
    return show_t(at, START, seconds=True)


def window(rows: list[Row] | tuple[Row, ...], since: int | None = None, until: int | None = None) -> Facts:
    return gather(rows, Asked(t(since) if since else "", t(until) if until else ""), UTC)


@pytest.mark.parametrize("name", EVERY)
def test_every_ledger_figure_is_verifys(name: str) -> None:
    """S10, S88: spent, held and totals equal what `palestra verify` counts from the events alone, to the last unit."""
    facts, again = facts_of(name), counted(name)
    for seat in facts.corners:
        if seat.api is None or seat.gpu is None:
            continue
        for resource, budget in (("api", seat.api), ("gpu", seat.gpu)):
            assert budget.spent == again.spent[seat.corner, resource]
            assert budget.held == again.held[seat.corner, resource]
            assert budget.spent == sum(one.amount for one in budget.postings)
    assert facts.board.api_spent == again.total("api")
    assert facts.board.gpu_spent == again.total("gpu")


@pytest.mark.parametrize("name", [*GOLDEN, "pocket"])
def test_every_window_s_figures_are_verifys_too(name: str) -> None:
    """S86: cut at every instant, what was posted before plus inside the window is what had been spent at its end."""
    for cut in [at for at in instants(name) if at > START]:
        before, after = window(rows_of(name), until=cut), window(rows_of(name), since=cut)
        again = counted(name, cut)
        for seat in after.corners:
            if seat.api is None or seat.gpu is None:
                continue
            first = (
                before.corner(seat.corner) if seat.corner in {one.corner for one in before.corners} else None
            )
            for resource in ("api", "gpu"):
                had = getattr(first, resource) if first else None
                now = getattr(seat, resource)
                assert (had.spent if had else 0) == again.spent.get((seat.corner, resource), 0)
                assert (had.posted if had else 0) + now.posted == now.spent
                assert now.posted == sum(one.amount for one in now.postings if one.at >= cut)
        assert before.rows + after.rows == len(rows_of(name))


@pytest.mark.parametrize("name", [*GOLDEN, "pocket"])
def test_s86_windows_that_meet_hold_each_fact_once(name: str) -> None:
    """Half-open: a nomination at the border's own instant is in the second window. Chart plus earlier is the table."""
    for cut in [at for at in instants(name) if at > START]:
        before, after = window(rows_of(name), until=cut), window(rows_of(name), since=cut)
        for seat in after.corners:
            early = before.nominations_of(seat.corner)
            late = after.nominations_of(seat.corner)
            assert all(one.requested.at < cut for one in early)
            assert all(one.requested.at >= cut for one in late)
            table = [one for one in after.nominations if one.corner == seat.corner]
            assert len(early) + len(late) == len(table)
            assert len(before.jobs_of(seat.corner)) + len(after.jobs_of(seat.corner)) == len(
                [job for job in after.jobs if job.corner == seat.corner]
            )


def test_s01_what_came_after_the_snapshot_is_in_no_figure_only_in_its_list() -> None:
    """Asked for at T+0:50, a copy that is kept at T+2:00 is not in a report of the first 70 minutes but in `later`."""
    facts = window(rows_of("troubled"), until=START + 70 * MINUTE)
    late = next(one for one in facts.nominations if one.nomination == "A-n1")
    assert (late.copied, late.decided, late.kind, late.state) == (None, None, None, "copying")
    assert facts.at == START + 70 * MINUTE
    assert all(row.at < facts.at for row in rows_of("troubled")[: facts.row])
    assert rows_of("troubled")[facts.row].at >= facts.at
    assert [one.text for one in facts.later if one.text.startswith("A-n1")] == [
        "A-n1 is copied: a full model.", "A-n1 is accepted; a later one is current.",
    ]  # fmt: skip
    assert all(one.at >= facts.at for one in facts.later)
    assert "B-n1" not in {one.nomination for one in facts.nominations}
    assert facts_of("troubled").later == ()


def test_s04_requested_copied_and_decided_are_times_of_their_own() -> None:
    one = next(one for one in facts_of("complete").nominations if one.nomination == "A-n1")
    assert one.copying is not None and one.copied is not None and one.decided is not None
    assert one.requested.at < one.copied.at <= one.decided.at
    assert one.copied.at - one.requested.at == 2 * MINUTE
    assert (one.requested.row, one.copying.row, one.copied.row) == (23, 24, 25)


def test_s53_before_joining_there_is_no_figure_at_all_and_its_own_time_begins_with_it() -> None:
    """Heron joins at T+1:05 of 3 h: blank before, and after that 1 h 55 min of its own to the common end."""
    before = window(rows_of("joined"), until=START + 62 * MINUTE).corner("C")
    assert (before.joined, before.api, before.gpu, before.pace) == (None, None, None, None)
    assert before.starts == START + 65 * MINUTE
    after = window(rows_of("joined"), until=START + 66 * MINUTE).corner("C")
    assert after.joined is not None and after.pace is not None and after.late
    assert (after.pace.gone, after.pace.whole) == (MINUTE, 115 * MINUTE)
    assert own_window((Moment(START), Moment(START + 66 * MINUTE)), after.joined.at) == (
        START + 65 * MINUTE, START + 66 * MINUTE,
    )  # fmt: skip


def test_s58_nothing_is_divided_by_no_time() -> None:
    """Before the start nobody has a pace or a figure, and at the very instant of joining there is none yet either."""
    early = window(rows_of("complete"), until=START)
    assert [(seat.pace, seat.api) for seat in early.corners] == [(None, None), (None, None)]
    joining = window(rows_of("joined"), until=START + 65 * MINUTE).corner("C")
    assert (joining.pace, joining.api) == (None, None)


def test_s46_an_entrant_that_is_done_is_frozen_there() -> None:
    seat = facts_of("complete").corner("B")
    assert seat.finished is not None and seat.done and seat.pace is not None
    assert seat.pace.gone == seat.finished.at - START
    assert seat.note == "one good run"


def test_removed_entrants_stay_in_the_figures_and_are_marked() -> None:
    facts = facts_of("joined")
    assert facts.corner("B").removed is not None
    assert facts.corner("D").joined is None
    assert facts.corner("D").removed is not None
    assert not any(one.current for one in facts.nominations if one.corner == "B")


def test_waits_and_runs_of_a_job_make_up_its_whole_life() -> None:
    """From submission to end; B's job waited out the pause, and A's ran twice with a wait between."""
    for name in EVERY:
        for job in facts_of(name).jobs:
            if job.ended is not None:
                ran = sum(run.ended.at - run.started.at for run in job.runs if run.ended)
                assert job.waited + ran == job.ended.at - job.submitted.at, (name, job.job)
    jobs = {job.job: job for job in facts_of("troubled").jobs}
    assert [(one.resource, one.until - one.since) for one in jobs["B-j1"].spells] == [("paused", 30 * MINUTE)]
    assert [run.end for run in jobs["A-j1"].runs] == ["preempted", "cancelled"]
    assert jobs["A-j1"].waited == 30 * MINUTE


def test_a_wait_that_goes_on_ends_at_the_report_s_instant() -> None:
    facts = window(rows_of("pocket"), until=START + 30 * 1_000_000)
    job = next(job for job in facts.jobs if job.job == "A-j2")
    assert not job.runs
    assert job.spells[-1].until == facts.at
    assert job.spells[-1].resource == "gpus"


def test_repeats_of_a_refusal_count_in_the_window_they_fell_into() -> None:
    no = next(one for one in facts_of("complete").refusals if one.code == "gpus_out_of_range")
    assert (no.times, len(no.rows)) == (3, 2)
    late = window(rows_of("complete"), since=START + 56 * MINUTE)
    assert not [one for one in late.refusals if one.code == "gpus_out_of_range"]


def test_the_digest_is_the_chain_s_at_the_row_it_names() -> None:
    facts = window(rows_of("complete"), until=START + 55 * MINUTE)
    assert facts.digest == rows_of("complete")[facts.row - 1].digest.hex()
    assert facts.last_digest == rows_of("complete")[-1].digest.hex()


def test_upto_a_row_a_report_doesn_t_change_when_the_record_goes_on() -> None:
    rows = rows_of("pocket")
    asked = Asked(until="T+0:01:10", upto=70)
    assert gather(rows[:70], asked, UTC) == gather(rows, asked, UTC)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(since="T+5:00:00"), "the record ends at T+2:03:00, before the window begins"),
        (Asked(since="T+0:10:00", until="T+0:10:00"), "a window ends after it begins, at T+0:10:00"),
        (Asked(day=0), "days are counted from 1"),
        (Asked(day=1, since="T+0:00"), "give either a day or --from and --to"),
        (Asked(since="2:00"), "hours and minutes since the start"),
    ],
)
def test_windows_that_make_no_sense_are_refused_by_name(asked: Asked, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("+", r"\+")):
        facts_of("complete", asked)


def test_an_empty_record_is_said_to_be_empty() -> None:
    with pytest.raises(BadInput, match="none yet"):
        gather([], Asked(), UTC)


def test_a_day_is_24_hours_from_the_start() -> None:
    run = Rehearsal(competition(running=50 * HOUR, entrants=(EntrantRule("One", model="small"),)))
    for hour in (1, 23, 24, 47, 48):
        run.at = Moment(START + hour * HOUR)
        run.accept(run.nominate("A", f"w{hour}"))
    run.grant(Finish("A", None, ""))
    play_out(run, {"A": 500, "base": 200})
    counts = [len(gather(run.rows, Asked(day=day), UTC).nominations_of("A")) for day in (1, 2, 3)]
    assert counts == [2, 2, 1]
    assert gather(run.rows, Asked(day=2), UTC).at == START + 48 * HOUR


def test_gathering_reaches_for_nothing_outside() -> None:
    rows = rows_of("pocket")
    with sealed():
        gather(rows, Asked(until="T+0:02:00"), UTC)
