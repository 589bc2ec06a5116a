"""Jobs at the referee: what is admitted, how attempts end, what they cost."""

from __future__ import annotations

import pytest
from tests.building import GB, Rehearsal, competition, spec

from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded, JobSubmitted, StopAsked
from palestra.events.runs import ObservationIgnored
from palestra.referee.observations import AttemptExited, AttemptLost, ServerDown
from palestra.referee.requests import CancelJob, Finish, SubmitJob
from palestra.rules.quantities import read_duration, read_size
from palestra.rules.units import DAY, GIB, HOUR, MINUTE, SECOND, Moment
from palestra.state.arena import Account


@pytest.fixture
def run() -> Rehearsal:
    return Rehearsal()


def test_f18_what_was_understood_of_a_limit_is_what_a_refusal_says(run: Rehearsal) -> None:
    """The grammar is the rules room's own; the referee answers with the limit in words, never with the text as written."""
    limit = read_duration("PT4H30M", "time")
    refusal = run.refuse(SubmitJob("A", None, spec(limit=limit)))
    assert (refusal.code, refusal.subject) == ("time_over_limit", "time")
    assert str(refusal) == "time = 4 h 30 min; a job may ask for at most 4 h"


@pytest.mark.parametrize("limit", [0, -1])
def test_f18_there_is_no_job_without_a_positive_limit(run: Rehearsal, limit: int) -> None:
    assert run.refuse(SubmitJob("A", None, spec(limit=limit))).code == "time_over_limit"


def test_f19_a_limit_in_the_wrong_unit_is_more_than_the_stage_has_left() -> None:
    """900,000 seconds where milliseconds were meant."""
    run = Rehearsal(competition(running=6 * HOUR, longest=30 * DAY, gpu_time=400 * DAY))
    run.wait(HOUR)
    refusal = run.refuse(SubmitJob("A", None, spec(limit=900_000 * SECOND)))
    assert (refusal.code, refusal.subject) == ("time_over_stage", "time")
    assert str(refusal) == "time = 10 d 10 h is more than the stage has left (5 h); ask for less"
    assert refusal.facts == {"left": 5 * HOUR}
    run.grant(SubmitJob("A", None, spec(limit=5 * HOUR)))


def test_f20_a_cap_of_64_gib_takes_64_gb_and_not_65_gib() -> None:
    run = Rehearsal(competition(memory_per_gpu=64 * GIB))
    run.grant(SubmitJob("A", None, spec(memory=read_size("64GB", "memory"))))
    refusal = run.refuse(SubmitJob("A", None, spec(memory=read_size("65GiB", "memory"))))
    assert (refusal.code, refusal.subject) == ("memory_over_cap", "memory")
    assert str(refusal) == "memory = 65 GiB for 1 GPU; the cap is 64 GiB per GPU, so 64 GiB here"
    assert refusal.facts == {"cap": 64 * GIB}


def test_f20_no_memory_is_refused_and_one_byte_stays_one_byte(run: Rehearsal) -> None:
    assert run.refuse(SubmitJob("A", None, spec(memory=0))).code == "memory_over_cap"
    run.submit(memory=1)
    assert run.last(AttemptStarted).memory == 1


@pytest.mark.parametrize("gpus", [0, -1, 9])
def test_gpus_out_of_range_are_named_with_the_range(run: Rehearsal, gpus: int) -> None:
    refusal = run.refuse(SubmitJob("A", None, spec(gpus=gpus)))
    assert (refusal.code, refusal.subject) == ("gpus_out_of_range", "gpus")
    assert str(refusal) == f"gpus = {gpus}; a job may have 1 to 8"


def test_what_no_node_has_is_refused_with_the_biggest_node() -> None:
    run = Rehearsal(competition(memory_per_gpu=100 * GB))
    refusal = run.refuse(SubmitJob("A", None, spec(gpus=8, memory=800 * GB)))
    assert refusal.code == "never_fits"
    assert "the biggest, n1, has 8 and 477.8 GiB" in str(refusal)


def test_f21_charged_for_the_use_not_the_wish() -> None:
    """8 GPUs declared for 4 h, dead after 3 min: 0.4 GPU-hours; the hold is given back."""
    run = Rehearsal(competition(gpu_time=40 * HOUR))
    job = run.submit(gpus=8, limit=4 * HOUR)
    assert run.account("A", "gpu") == Account(40 * HOUR, 0, 32 * HOUR)
    run.exit(job, 1, ran=3 * MINUTE)
    assert run.last(AttemptEnded).charge * 10 == 4 * HOUR
    assert run.account("A", "gpu") == Account(40 * HOUR, 24 * MINUTE, 0)


def test_f21_nothing_is_guessed_when_the_time_isn_t_known(run: Rehearsal) -> None:
    job = run.submit()
    run.exit(job, 1, ran=None)
    assert run.account("A", "gpu") == Account(40 * HOUR)


def test_f21_a_lost_attempt_costs_nothing_and_says_whose_fault_it_is(run: Rehearsal) -> None:
    job = run.submit()
    run.tell(AttemptLost(run.state.jobs[job].attempt))
    ended = run.last(AttemptEnded)
    assert (ended.end, ended.cause, ended.charge) == ("lost", "infrastructure", 0)
    assert job not in run.state.jobs


def test_what_the_arena_takes_to_kill_is_its_own(run: Rehearsal) -> None:
    """A limit of 1 h, gone after 1 h and 5 s: 1 h is charged."""
    job = run.submit(gpus=2, limit=HOUR)
    run.exit(job, 143, ran=HOUR + 5 * SECOND, over_time=True)
    assert run.account("A", "gpu").spent == 2 * HOUR


def test_a_job_that_can_t_be_paid_even_when_all_holds_come_back_is_refused() -> None:
    run = Rehearsal(competition(gpu_time=4 * HOUR))
    run.submit(gpus=2, limit=HOUR)
    run.grant(SubmitJob("A", None, spec(gpus=4, limit=HOUR)))  # waits for the hold
    refusal = run.refuse(SubmitJob("A", None, spec(gpus=8, limit=HOUR)))
    assert (refusal.code, refusal.facts) == (
        "gpu_time_spent",
        {"needed": 8 * HOUR, "left": 2 * HOUR, "held": 2 * HOUR},
    )
    assert "8 GPU for 1 h holds 8.00 GPU-h; 4.00 GPU-h is not yet spent" in str(refusal)


def test_s50_three_jobs_stopped_by_a_limit_of_two_minutes_each_say_so(run: Rehearsal) -> None:
    for _ in range(3):
        job = run.submit(limit=read_duration("2m", "time"))
        run.at = Moment(run.at + 2 * MINUTE)
        run.exit(job, 143, ran=2 * MINUTE, over_time=True)
        ended = run.last(AttemptEnded)
        assert (ended.end, ended.cause) == ("timed_out", "time_limit")
        assert ended.evidence == "time limit 2 min hit at 2 min"
        assert run.last(JobEnded).end == "timed_out"


def test_a_clean_exit_without_its_outputs_is_not_completed(run: Rehearsal) -> None:
    job = run.submit(outputs=("out/model.safetensors",))
    run.exit(job, 0, missing_outputs=("out/model.safetensors",))
    assert (run.last(JobEnded).end, run.last(JobEnded).cause) == ("completed_without_output", "no_output")


def test_f22_preempted_by_a_server_stop_it_queues_again_free_of_charge(run: Rehearsal) -> None:
    """Ran 10 min, the server was stopped and came back after 30, ran 20 min: completed, two attempts, 20 min charged."""
    job = run.submit()
    run.at = Moment(run.at + 10 * MINUTE)
    stop = [event for event in run.tell(ServerDown(1, "stop")) if isinstance(event, StopAsked)]
    assert [(one.job, one.why, one.by) for one in stop] == [(job, "server_stop", "server")]
    run.exit(job, 143, ran=10 * MINUTE)
    ended = run.last(AttemptEnded)
    assert (ended.attempt, ended.end, ended.cause, ended.charge) == (
        f"{job}.1",
        "preempted",
        "server_stop",
        0,
    )
    assert job in run.state.jobs
    run.tell(ServerDown(1, "gone"))
    run.at = Moment(run.at + 30 * MINUTE)
    run.restart()
    assert run.last(AttemptStarted).attempt == f"{job}.2"
    run.at = Moment(run.at + 20 * MINUTE)
    run.exit(job, 0, ran=20 * MINUTE)
    assert (run.last(JobEnded).end, run.last(JobEnded).attempts) == ("completed", 2)
    assert run.account("A", "gpu") == Account(40 * HOUR, 20 * MINUTE, 0)
    card = run.book.catalog.jobs[job]
    assert [one.ended.end for one in card.attempts if one.ended] == ["preempted", "completed"]


def test_a_running_job_survives_the_death_of_the_server(run: Rehearsal) -> None:
    job = run.submit()
    run.restart()
    assert run.state.attempts[f"{job}.1"].stopping == "none"
    run.at = Moment(run.at + MINUTE)
    run.exit(job)
    assert run.last(JobEnded).end == "completed"
    assert run.account("A", "gpu").spent == MINUTE


def test_cancelling_a_waiting_job_takes_it_out_at_once(run: Rehearsal) -> None:
    run.submit(gpus=8)
    waits = run.submit(gpus=8)
    run.grant(CancelJob("A", None, waits))
    assert run.last(JobEnded) == JobEnded(waits, "A", "cancelled", "cancelled", 0, run.last(JobEnded).asked)
    assert waits not in run.state.jobs


def test_cancelling_a_running_job_charges_what_it_ran(run: Rehearsal) -> None:
    job = run.submit(gpus=2)
    run.grant(CancelJob("A", None, job))
    assert run.refuse(CancelJob("A", None, job)).code == "stopping"
    run.at = Moment(run.at + MINUTE)
    run.exit(job, 143, ran=MINUTE)
    assert run.last(JobEnded).end == "cancelled"
    assert run.account("A", "gpu").spent == 2 * MINUTE


def test_nobody_cancels_what_isn_t_theirs(run: Rehearsal) -> None:
    job = run.submit("A", gpus=8)
    assert run.refuse(CancelJob("B", None, job)).code == "no_such_job"


def test_an_attempt_ends_once(run: Rehearsal) -> None:
    job = run.submit()
    run.exit(job)
    again = AttemptExited(f"{job}.1", 1, None, None)
    assert run.tell(again) == [ObservationIgnored(f"{job}.1", "AttemptExited")]
    assert run.tell(AttemptLost(f"{job}.1")) == [ObservationIgnored(f"{job}.1", "AttemptLost")]


def test_what_is_left_of_a_finished_corner_is_ended_by_rule(run: Rehearsal) -> None:
    running = run.submit(gpus=8)
    waiting = run.submit(gpus=8)
    run.grant(Finish("A", None))
    assert waiting not in run.state.jobs
    assert run.state.attempts[f"{running}.1"].stopping == "stage_end"
    run.exit(running, 143)
    assert (run.last(JobEnded).end, run.last(JobEnded).cause) == ("cancelled", "stage_end")


def test_a_queue_has_a_most() -> None:
    run = Rehearsal(competition(queued=2, gpu_time=400 * HOUR))
    run.submit(gpus=8)
    for _ in range(2):
        run.submit(gpus=8)
    refusal = run.refuse(SubmitJob("A", None, spec()))
    assert (refusal.code, refusal.facts) == ("queue_full", {"waiting": 2})
    run.submit("B", gpus=8)


def test_ids_come_from_counters_and_are_never_used_again(run: Rehearsal) -> None:
    first = run.submit()
    run.exit(first)
    assert (first, run.submit(), run.submit("B")) == ("A-j1", "A-j2", "B-j1")
    run.restart()
    assert run.submit() == "A-j3"
    submitted = run.last(JobSubmitted)
    assert (submitted.job, submitted.subject) == ("A-j3", "A-j3")
