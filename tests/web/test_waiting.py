"""Waiting: long polls that end when there is news, and jobs that say exactly what they wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.building import GB, competition
from tests.web.arena import DEADLINE, Arena, serving

from palestra.cluster.fake import Behaviour
from palestra.ports import AttemptSpec
from palestra.referee.requests import Pause
from palestra.rules.competition import Node
from palestra.rules.units import HOUR, MINUTE, Bytes, Micros

SEED_NODE = Node("n1", 8, Bytes(513 * GB))
"""S71's machine: 8 GPUs, 513 GB."""
HUNDRED = 100 * 10**9


def nodes(*gpus: int) -> list[Node]:
    return [Node(f"n{number}", count, Bytes(count * 64 * GB)) for number, count in enumerate(gpus, 1)]


def test_s71_the_memory_hogs_are_named() -> None:
    """S71, S72: four 1-GPU jobs hold 480 GB of 513; a 4-GPU, 256 GB job waits for memory, not for "the queue"."""
    rules = competition(nodes=[SEED_NODE], memory_per_gpu=120 * GB, gpus_running=8)
    with serving(rules) as arena:
        for _ in range(4):
            assert arena.submit(memory="120GB", corner="B").json["state"] == "running"
        answer = arena.submit(gpus=4, memory="256GB").json
        assert (answer["job"], answer["state"]) == ("A-j1", "queued")
        wait = answer["wait"]
        assert (wait["resource"], wait["best_node"]) == ("memory", "n1")
        assert (wait["needed"], wait["missing"]) == (256 * GB, 223 * GB)
        assert wait["holders"] == ["B-j1", "B-j2", "B-j3", "B-j4"]
        said = (
            "memory: needs 238.4 GiB, best node n1 has 30.7 GiB, 4 GPUs free; held by B-j1 (111.8 GiB, at most 1 h), "
            "B-j2 (111.8 GiB, at most 1 h), B-j3 (111.8 GiB, at most 1 h), B-j4 (111.8 GiB, at most 1 h)"
        )
        assert wait["sentence"] == said
        shown = arena.run("jobs", "A-j1")
        assert f"waits for {said}" in shown.words
        assert "queue" not in said


def test_s72_the_best_node_is_not_the_first() -> None:
    """S72: free GPUs elsewhere don't help a job that fits on one node only."""
    with serving(competition(nodes=nodes(8, 4), gpus_running=8)) as arena:
        arena.submit(gpus=4, corner="B")
        wait = arena.submit(gpus=8).json["wait"]
        assert (wait["resource"], wait["needed"], wait["missing"], wait["best_node"]) == ("gpus", 8, 4, "n1")
        assert wait["sentence"].startswith("GPUs: needs 8, best node n1 has 4 free; held by B-j1 (")


def test_s79_only_running_jobs_count_against_the_cap() -> None:
    """S79, F14: a queued 8-GPU job doesn't hold a 1-GPU job back; what does is named, and can be cancelled."""
    with serving(competition(nodes=nodes(8, 8), gpus_running=8, gpu_time=100 * HOUR)) as arena:
        assert arena.submit(gpus=4).json["state"] == "running"
        big = arena.submit(gpus=8).json
        assert big["wait"]["resource"] == "running_cap"
        assert big["wait"]["sentence"] == "your running cap of 8 GPUs: 4 run in A-j1, this job needs 8"
        assert arena.submit(gpus=1).json["state"] == "running"
        assert (
            "your running cap of 8 GPUs: 5 run in A-j1, A-j3, this job needs 8"
            in arena.run("jobs", "A-j2").words
        )
        assert arena.ask("POST", "/arena/jobs/A-j2/cancel", {}).json["state"] == "ended"


def test_waiting_for_ones_own_gpu_time() -> None:
    with serving(competition(gpu_time=2 * HOUR)) as arena:
        arena.submit(time="90m")
        wait = arena.submit(time="1h").json["wait"]
        assert (wait["resource"], wait["needed"], wait["missing"]) == ("gpu_time", HOUR, HOUR // 2)
        assert wait["sentence"] == (
            "GPU-time: it would hold 1.00 GPU-h, 0.50 GPU-h is left and 1.50 GPU-h is held by A-j1"
        )  # fmt: skip


def test_waiting_for_the_end_of_a_pause(arena: Arena) -> None:
    arena.rule(Pause("organiser:x", None, ""))
    answer = arena.submit().json
    assert answer["wait"]["sentence"] == "the competition is paused; nothing starts until it resumes"
    assert "the competition is paused" in arena.run("jobs", "A-j1").words


def meanwhile(wait: Callable[[], object], then: Callable[[], object]) -> object:
    """Begin to wait, then let something happen: what the wait gave."""
    begun = threading.Event()

    def waiting() -> object:
        begun.set()
        return wait()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(waiting)
        begun.wait(DEADLINE)
        then()
        return answer.result(DEADLINE)


def test_a_long_poll_ends_with_the_job() -> None:
    with serving(behave=lambda spec: Behaviour(runs=Micros(MINUTE))) as arena:
        arena.submit()
        arena.settle()
        ended = meanwhile(
            lambda: arena.ask("GET", "/arena/jobs/A-j1?wait=60").json, lambda: arena.settle(2 * MINUTE)
        )
        assert isinstance(ended, dict)
        assert (ended["state"], ended["end"], ended["exit_code"]) == ("ended", "completed", 0)
        assert arena.ask("GET", "/arena/jobs/A-j1?wait=60").json["end"] == "completed"


def test_a_long_poll_ends_with_the_nomination(arena: Arena) -> None:
    arena.checkpoint("one")
    arena.run("nominate", "one")

    def go_on() -> None:
        for _ in range(4):
            arena.settle(MINUTE)

    ended = meanwhile(lambda: arena.ask("GET", "/arena/nominations/A-n1?wait=60").json, go_on)
    assert isinstance(ended, dict)
    assert (ended["state"], ended["current"]) == ("accepted", True)


def test_a_poll_that_waits_in_vain_tells_how_it_stands(arena: Arena) -> None:
    arena.submit()
    for wait in ("0", "-5", "1"):
        assert arena.ask("GET", f"/arena/jobs/A-j1?wait={wait}").json["state"] == "running"
    for wait in ("soon", "1.5", "", "1e9"):
        answer = arena.ask("GET", f"/arena/jobs/A-j1?wait={wait}")
        assert (answer.status, answer.error["field"]) == (422, "wait")


def test_the_command_waits_for_all_jobs_and_tells_by_its_exit_code() -> None:
    """F15: a job counts as completed when it exits with 0 and its declared outputs exist and are new."""

    def behave(spec: AttemptSpec) -> Behaviour:
        runs = Micros(MINUTE)
        if spec.outputs:
            return Behaviour(runs=runs, missing=spec.outputs)
        return Behaviour(runs=runs, exit_code=int(spec.argv[-1]))

    with serving(behave=behave) as arena:
        arena.submit("exit", "0")
        arena.submit("exit", "1")
        arena.submit("exit", "0", outputs=["ckpt"])
        arena.settle()
        arena.settle(2 * MINUTE)
        assert arena.run("jobs", "A-j1", "--wait", "30s").code == 0
        assert arena.run("jobs", "A-j2", "--wait", "30s").code == 1
        silent = arena.run("jobs", "A-j3", "--wait", "30s")
        assert silent.code == 1
        assert silent.text.startswith("A-j3 exit: completed_without_output\n") and "no_output" in silent.text
        assert arena.run("jobs", "--wait").code == 1
