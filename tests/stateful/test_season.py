"""Whole competitions at random: whatever is asked, reported, paused or killed in whatever order, what must hold holds.

Covers F04, F05, F14, F20, F21, F36, F53, F54, F55, S03, S10, S60, S67, S79, S84 and the kill -9 of issue 2, on the fakes.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize
from tests.building import GB, SEED, START, competition, digest
from tests.stateful.moves import (
    Agents,
    Attempts,
    Calls,
    Exams,
    Jobs,
    Nominations,
    Organisers,
    Repetitions,
    Servers,
    Times,
)
from tests.stateful.watched import Watched
from tests.world import QUESTIONS, end_of_running, settle

from palestra.referee.observations import QuestionsMade
from palestra.rules.competition import Competition, Node, PauseRule
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Bytes

BEGINNINGS = ("running", "announced", "nominated", "closing", "judging", "sitting")
pauses = st.sampled_from(["extend", "absorb"])


def rules(pause: PauseRule, *, early: bool = False, serving_gpus: int = 0) -> Competition:
    """Two corners, two uneven nodes, little credit, short stages."""
    return competition(
        running=3 * HOUR, closing=HOUR, judging=HOUR, pause=pause, end_when_all_finished=early,
        api_credit=DOLLAR // 10, gpu_time=6 * HOUR, memory_per_gpu=3 * GB, gpus_per_job=4, gpus_running=4,
        queued=4, longest=2 * HOUR, serving_memory=2 * GB, serving_gpus=serving_gpus,
        nodes=(Node("n1", 2, Bytes(4 * GB)), Node("n2", 4, Bytes(5 * GB))),
    )  # fmt: skip


class Season(Times, Servers, Organisers, Calls, Jobs, Attempts, Agents, Nominations, Exams, Repetitions):
    """From anywhere in a run to anywhere else."""

    @initialize(
        pause=pauses, early=st.booleans(), beginning=st.sampled_from(BEGINNINGS), serving_gpus=st.integers(0, 1)
    )  # fmt: skip
    def open(self, pause: PauseRule, early: bool, beginning: str, serving_gpus: int) -> None:
        before = MINUTE if beginning == "announced" else 0
        self.run = run = Watched(rules(pause, early=early, serving_gpus=serving_gpus), at=START - before)
        if beginning in ("announced", "running"):
            return
        run.accept(run.nominate("A", "w0"))
        run.nominate("A", "w1")
        run.submit("B", gpus=2, memory=GB)
        if beginning != "nominated":
            run.until(end_of_running(run))
        if beginning in ("judging", "sitting"):
            settle(run)
            assert run.state.clock.stage == "judging"
        if beginning == "sitting":
            run.tell(QuestionsMade(SEED, digest("questions"), QUESTIONS))


class LedgerSeason(Servers, Calls, Jobs, Attempts, Repetitions):
    """Only what is paid for, so that accounts come close to their limits."""

    @initialize(pause=pauses)
    def open(self, pause: PauseRule) -> None:
        self.run = Watched(rules(pause))


class NominationSeason(Times, Servers, Attempts, Nominations, Repetitions):
    """Only nominations, so that many are under way at once."""

    @initialize(pause=pauses, kept=st.integers(0, 3))
    def open(self, pause: PauseRule, kept: int) -> None:
        self.run = Watched(rules(pause))
        for number in range(kept):
            self.run.copied(self.run.nominate("A", f"w{number}"))


TestSeason = Season.TestCase
TestLedger = LedgerSeason.TestCase
TestNominations = NominationSeason.TestCase
