"""The queue alone, on one big node: no GPU twice, no memory overcommitted; and the machine that says so would notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.building import GB, competition, events_of, spec
from tests.stateful.shadow import Overcommitted
from tests.stateful.watched import Watched

from palestra.events.jobs import JobSubmitted
from palestra.referee import schedule
from palestra.referee.requests import SubmitJob
from palestra.rules.competition import Node
from palestra.rules.units import HOUR, MINUTE, Bytes
from palestra.state.arena import State
from palestra.state.queue import Room, room

NODE = Node("n1", 8, Bytes(513 * GB))
MOST = 340
"""GB that one GPU's job may ask for: a wide cap, so that memory can bind before GPUs do."""
big_first = st.integers(0, MOST - 1).map(lambda less: MOST - less)
"""A failure shrinks to large jobs, hence to few."""


class Queue(RuleBasedStateMachine):
    """Submit, wait, finish."""

    def __init__(self) -> None:
        super().__init__()
        rules = competition(
            nodes=(NODE,), memory_per_gpu=MOST * GB, gpu_time=4_000 * HOUR, running=400 * HOUR, queued=100
        )
        self.watched = Watched(rules)

    @rule(gpus=st.integers(1, 8), memory=big_first, corner=st.sampled_from(["A", "B"]))
    def submit(self, gpus: int, memory: int, corner: str) -> None:
        self.watched.ask(SubmitJob(corner, None, spec(gpus=gpus, memory=memory * GB)))

    @rule()
    def tick(self) -> None:
        self.watched.wait(MINUTE)

    @precondition(lambda self: self.watched.state.attempts)
    @rule(pick=st.integers(0, 7))
    def finish(self, pick: int) -> None:
        attempts = list(self.watched.state.attempts.values())
        self.watched.exit(attempts[pick % len(attempts)].job)

    @invariant()
    def what_must_hold_holds(self) -> None:
        self.watched.check()

    def submitted(self) -> list[JobSubmitted]:
        """The jobs of this run."""
        return [event for event in events_of(self.watched.rows) if isinstance(event, JobSubmitted)]


TestQueue = Queue.TestCase


def blind_to_memory(sees: Callable[[State], dict[str, Room]]) -> Callable[[State], dict[str, Room]]:
    """The scheduler's view of the nodes, were its memory check forgotten."""

    def boundless(state: State) -> dict[str, Room]:
        return {name: Room(name, free.gpus, 1 << 60) for name, free in sees(state).items()}

    return boundless


def test_s71_without_the_memory_check_the_machine_finds_two_jobs_that_overcommit_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The seeds' day-4 story: two 1-GPU jobs of 340 and 174 GB on a node of 513 GB."""
    monkeypatch.setattr(schedule, "room", blind_to_memory(room))
    search = settings(
        max_examples=100, stateful_step_count=30, derandomize=True, database=None, deadline=None, print_blob=False,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    with pytest.raises(Overcommitted) as found:
        run_state_machine_as_test(Queue, settings=search)
    smallest = found.value.attempts
    assert [len(one.gpus) for one in smallest] == [1, 1]
    assert sum(one.memory for one in smallest) > NODE.memory
    steps = [note for note in found.value.__notes__ if "state." in note]
    assert "\n".join(steps).count("state.submit(") == 2


@pytest.mark.parametrize("blind", [False, True])
def test_s71_340_and_174_gb_don_t_fit_513(blind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two jobs themselves: the second waits for 1 GB; a scheduler blind to memory starts it."""
    if blind:
        monkeypatch.setattr(schedule, "room", blind_to_memory(room))
    queue = Queue()
    queue.submit(gpus=1, memory=340, corner="A")
    if blind:
        with pytest.raises(Overcommitted):
            queue.submit(gpus=1, memory=174, corner="A")
        return
    queue.submit(gpus=1, memory=174, corner="A")
    state = queue.watched.state
    wait = schedule.explain(state, "A-j2", queue.watched.at)
    assert (wait.resource, wait.missing, wait.holders) == ("memory", GB, ("A-j1",))
