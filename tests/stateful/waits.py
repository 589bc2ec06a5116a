"""Whether a waiting job really waits, and for what: counted on the nodes by other code than the scheduler's."""

from __future__ import annotations

from tests.stateful.ledger import HOUSE

from palestra.referee.schedule import Wait
from palestra.state.arena import Job, State


def free(state: State) -> dict[str, tuple[int, int]]:
    """Free GPUs and memory by node."""
    left: dict[str, tuple[int, int]] = {node.name: (node.gpus, node.memory) for node in state.rules.nodes}
    for one in state.attempts.values():
        gpus, memory = left[one.node]
        left[one.node] = (gpus - len(one.gpus), memory - one.memory)
    return left


def check_wait(state: State, job: Job, wait: Wait) -> None:
    """The reason given is one that binds, and what it says is missing is missing."""
    asked, resource = job.spec, wait.resource
    assert wait.sentence
    assert (resource, wait.holders) == job.wait, f"{job.job}: said {job.wait}, now it is {wait}"
    if resource == "paused":
        assert state.clock.paused
        return
    assert not state.clock.paused
    if resource == "gpu_time":
        account = state.accounts[job.corner, "gpu"]
        assert wait.missing == asked.gpus * asked.limit - account.left > 0
    elif resource == "running_cap":
        used = sum(len(one.gpus) for one in state.attempts.values() if one.corner == job.corner)
        assert wait.missing == used + asked.gpus - state.rules.jobs.gpus_running > 0
    else:
        left = free(state)
        assert all(gpus < asked.gpus or memory < asked.memory for gpus, memory in left.values())
        gpus, memory = left[wait.best_node]
        if resource == "gpus":
            assert wait.missing == asked.gpus - gpus > 0
        else:
            assert resource == "memory"
            assert wait.missing == asked.memory - memory > 0
            assert gpus >= asked.gpus
    assert all(state.jobs[holder].attempt for holder in wait.holders)
    assert job.corner != HOUSE or resource in ("gpus", "memory")
