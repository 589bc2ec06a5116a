"""The queue: who starts, and for whoever doesn't, exactly what it waits for."""

from __future__ import annotations

from tests.building import GB, Rehearsal, competition, events_of

from palestra.events.jobs import AttemptStarted, WaitChanged
from palestra.referee.requests import Pause, Resume
from palestra.referee.schedule import Wait, explain
from palestra.rules.competition import Node
from palestra.rules.units import HOUR, MINUTE, Bytes


def why(run: Rehearsal, job: str) -> Wait:
    """What a job waits for now."""
    return explain(run.state, job, run.at)


def starts(run: Rehearsal) -> list[str]:
    """Jobs that run."""
    return [attempt.job for attempt in run.state.attempts.values()]


def test_s71_s72_the_wait_names_memory_the_best_node_and_who_holds_it() -> None:
    """The seeds' own node: 8 GPUs and 513 GB; four 1-GPU jobs of 120 GB; then 4 GPUs and 256 GB are asked for."""
    run = Rehearsal(competition(memory_per_gpu=120 * GB, gpus_running=16))
    holders = [run.submit("A", memory=120 * GB) for _ in range(4)]
    job = run.submit("B", gpus=4, memory=256 * GB)
    wait = why(run, job)
    assert (wait.resource, wait.needed, wait.best_node) == ("memory", 256 * GB, "n1")
    assert wait.missing == (256 - 33) * GB
    assert wait.holders == tuple(holders)
    assert wait.sentence == (
        "memory: needs 238.4 GiB, best node n1 has 30.7 GiB, 4 GPUs free; held by "
        "A-j1 (111.8 GiB, at most 1 h), A-j2 (111.8 GiB, at most 1 h), A-j3 (111.8 GiB, at most 1 h), "
        "A-j4 (111.8 GiB, at most 1 h)"
    )
    assert "queue" not in wait.sentence


def test_s72_of_several_nodes_the_one_that_misses_least_is_named() -> None:
    """Fourteen GPUs are free on two nodes whose memory is taken; the third has memory and one GPU too few."""
    nodes = [Node(name, 8, Bytes(513 * GB)) for name in ("n1", "n2", "n3")]
    run = Rehearsal(competition(nodes=nodes, memory_per_gpu=512 * GB, gpus_running=24))
    run.submit("A", memory=500 * GB)
    run.submit("A", memory=400 * GB)
    run.submit("A", gpus=5, memory=200 * GB)
    wait = why(run, run.submit("B", gpus=4, memory=256 * GB))
    assert (wait.resource, wait.best_node, wait.missing) == ("memory", "n2", (256 - 113) * GB)
    assert wait.holders == ("A-j2",)


def test_s72_gpus_are_named_when_gpus_are_missing() -> None:
    run = Rehearsal()
    run.submit("A", gpus=6)
    wait = why(run, run.submit("B", gpus=4))
    assert (wait.resource, wait.needed, wait.missing, wait.holders) == ("gpus", 4, 2, ("A-j1",))
    assert wait.sentence == "GPUs: needs 4, best node n1 has 2 free; held by A-j1 (953.7 MiB, at most 1 h)"


def test_f14_s79_a_waiting_job_doesn_t_count_against_the_running_cap() -> None:
    """Cap 8, an 8-GPU job waits for a busy node, none of the corner's run: its 1-GPU job starts."""
    run = Rehearsal(competition(gpus_running=8))
    run.submit("B", gpus=1)
    big = run.submit("A", gpus=8)
    assert why(run, big).resource == "gpus"
    small = run.submit("A", gpus=1)
    assert starts(run) == ["B-j1", small]
    assert (why(run, big).resource, why(run, big).holders) == ("running_cap", (small,))


def test_f14_the_running_cap_names_cap_value_and_blocking_job() -> None:
    run = Rehearsal(competition(gpus_running=2, gpus_per_job=2))
    first = run.submit("A", gpus=1)
    wait = why(run, run.submit("A", gpus=2))
    assert (wait.resource, wait.needed, wait.missing, wait.holders) == ("running_cap", 2, 1, (first,))
    assert wait.sentence == f"your running cap of 2 GPUs: 1 run in {first}, this job needs 2"
    run.exit(first)
    assert starts(run) == ["A-j2"]


def test_own_gpu_time_that_is_held_is_waited_for() -> None:
    run = Rehearsal(competition(gpu_time=3 * HOUR))
    first = run.submit(gpus=2)
    second = run.submit(gpus=2)
    wait = why(run, second)
    assert (wait.resource, wait.needed, wait.missing, wait.holders) == ("gpu_time", 2 * HOUR, HOUR, (first,))
    run.exit(first, ran=MINUTE)
    assert starts(run) == [second]


def test_jobs_start_in_order_and_whoever_fits_doesn_t_wait_for_whoever_doesn_t() -> None:
    run = Rehearsal()
    run.submit("A", gpus=6)
    big, small, smaller = run.submit("B", gpus=8), run.submit("A", gpus=1), run.submit("B", gpus=1)
    assert starts(run) == ["A-j1", small, smaller]
    for job in ("A-j1", small, smaller):
        run.exit(job)
    assert starts(run) == [big]


def test_a_gpu_is_given_to_one_attempt_at_a_time() -> None:
    run = Rehearsal()
    first, second = run.submit(gpus=3), run.submit("B", gpus=3)
    run.exit(first)
    third = run.submit(gpus=5)
    given = {attempt.job: attempt.gpus for attempt in run.state.attempts.values()}
    assert given == {second: (3, 4, 5), third: (0, 1, 2, 6, 7)}


def test_nothing_starts_while_paused_and_all_that_fits_starts_after_it() -> None:
    run = Rehearsal()
    run.grant(Pause("organiser:one", None, "a node is down"))
    job = run.submit()
    assert why(run, job).sentence == "the competition is paused; nothing starts until it resumes"
    assert run.last(WaitChanged).resource == "paused"
    assert not starts(run)
    run.grant(Resume("organiser:one", None))
    assert starts(run) == [job]


def test_the_arena_s_own_work_goes_first_and_holds_nobody_s_gpu_time() -> None:
    run = Rehearsal(competition(serving_gpus=1))
    run.submit("A", gpus=8)
    run.submit("B", gpus=8)
    run.copied(run.nominate("A"))
    assert why(run, "house-j1").resource == "gpus"
    run.exit("A-j1")
    started = run.last(AttemptStarted)
    assert (started.job, started.corner, started.hold) == ("house-j1", "house", 0)


def test_a_wait_is_written_once_until_resource_or_holder_changes() -> None:
    run = Rehearsal()
    first, second = run.submit("A", gpus=4), run.submit("A", gpus=4)
    job = run.submit("B", gpus=8)
    for _ in range(5):
        run.wait(MINUTE)
    assert [event.blockers for event in waits(run, job)] == [(first, second)]
    run.exit(first)
    assert [event.blockers for event in waits(run, job)] == [(first, second), (second,)]


def waits(run: Rehearsal, job: str) -> list[WaitChanged]:
    """What was recorded of a job's waiting."""
    return [event for event in events_of(run.rows) if isinstance(event, WaitChanged) and event.job == job]
