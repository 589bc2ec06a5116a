"""Death of the server between any two steps, on fakes: no event lost, nothing started or paid twice, one current nomination."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Container
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.building import competition, spec
from tests.runtime.crashing import Died, Inside, Outside

from palestra.cluster.fake import Behaviour
from palestra.events.codec import read_entry
from palestra.events.nominations import AnswerSettings
from palestra.events.spend import CallCharged, CallReleased
from palestra.ports import AttemptSpec
from palestra.referee.requests import Finish, Nominate, Receipt, Request, SubmitJob
from palestra.rules.units import HOUR, MINUTE, SECOND, Bytes, Micros
from palestra.runtime.audit import Audit
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog

PATIENT = 1000 * HOUR
"""Stages that no wait of these tests outlasts, so that everything is copied and scored however often the server dies."""
CORNERS = st.sampled_from(["A", "B"])


class Crashes(RuleBasedStateMachine):
    """What clients do, what time does, and kills anywhere in between. Clients ask again with the same key."""

    @initialize(dooms=st.lists(st.integers(0, 25), max_size=25))
    def open(self, dooms: list[int]) -> None:
        self.dooms = dooms
        self._folder = Path(tempfile.mkdtemp())
        self.behaviours = [Behaviour(runs=Micros(10 * MINUTE))]
        self.outside = Outside(self._folder, self._behave)
        self.inside = Inside(
            self.outside,
            competition(running=2 * HOUR, closing=PATIENT, judging=PATIENT, end_when_all_finished=True),
        )
        self.inside.doom = self.dooms.pop() if self.dooms else None
        self.acknowledged: dict[tuple[str, str], Receipt] = {}
        self.keys = 0

    def _behave(self, spec: AttemptSpec) -> Behaviour:
        return self.behaviours[sum(map(ord, spec.attempt)) % len(self.behaviours)]

    def _restart(self) -> None:
        """The next life, and the next, until one survives its own start."""
        while True:
            try:
                self.inside = Inside(self.outside, doom=self.dooms.pop() if self.dooms else None)
                return
            except Died:
                continue

    def _ask(self, request: Request) -> None:
        """As a client does: the same key until there is an answer."""
        while True:
            try:
                answer = self.inside.ask(request)
                break
            except Died:
                self._restart()
        if isinstance(answer, Receipt):
            assert request.key is not None
            before = self.acknowledged.setdefault((request.actor, request.key), answer)
            assert before.id == answer.id

    def _key(self) -> str:
        self.keys += 1
        return f"key-{self.keys:06d}"

    @rule(corner=CORNERS, gpus=st.integers(1, 8), limit=st.sampled_from([MINUTE, 20 * MINUTE, HOUR]))
    def submit(self, corner: str, gpus: int, limit: int) -> None:
        self._ask(SubmitJob(corner, self._key(), spec(gpus=gpus, limit=limit)))

    @rule(corner=CORNERS, name=st.sampled_from(["w1", "w2", "w3"]), tokens=st.sampled_from([64, 128]))
    def nominate(self, corner: str, name: str, tokens: int) -> None:
        artifact = self.inside.nominate_body(name)
        settings = AnswerSettings(max_tokens=tokens)
        self._ask(Nominate(corner, self._key(), artifact, f"out/{name}", Bytes(10**9), settings))

    @rule(corner=CORNERS)
    def call(self, corner: str) -> None:
        try:
            self.inside.call_model(corner)
        except Died:
            self._restart()

    @rule(corner=CORNERS)
    def finish(self, corner: str) -> None:
        if self.keys > 12:
            self._ask(Finish(corner, self._key()))

    @rule(exit_code=st.sampled_from([0, 1]), runs=st.sampled_from([SECOND, 30 * MINUTE, None]))
    def another_kind_of_job(self, exit_code: int, runs: int | None) -> None:
        self.behaviours.append(Behaviour(exit_code=exit_code, runs=None if runs is None else Micros(runs)))

    @rule(span=st.sampled_from([SECOND, MINUTE, 30 * MINUTE]))
    def wait(self, span: int) -> None:
        try:
            self.inside.wait(span)
        except Died:
            self._restart()

    @rule()
    def reconcile(self) -> None:
        try:
            self.inside.round()
        except Died:
            self._restart()

    @precondition(lambda self: hasattr(self, "outside"))
    @invariant()
    def nothing_twice(self) -> None:
        out = self.outside
        assert len(out.executor.starts) == len(set(out.executor.starts))
        assert len(out.sessions.starts) == len(set(out.sessions.starts))
        assert len(out.vault.started) == len(set(out.vault.started))
        assert all(times == 1 for times in out.upstream.values())

    def _replay(self) -> tuple[State, Catalog]:
        state, cards, audit = State(), Catalog(), Audit()
        settled: set[str] = set()
        for row in self.outside.journal.read(0, 10**9):
            entry = read_entry(row)
            fold.fold(state, entry)
            catalog.fold(cards, entry)
            audit.check(entry, state)
            if isinstance(entry.event, (CallCharged, CallReleased)):
                assert entry.event.call not in settled
                settled.add(entry.event.call)
        assert set(self.outside.upstream) <= settled | set(state.calls)
        return state, cards

    def teardown(self) -> None:
        """Let it go on undisturbed to the end: everything that was acknowledged is there, and is settled."""
        if not hasattr(self, "inside"):
            return
        try:
            self.dooms.clear()
            self._restart()
            self._play_out()
            self.nothing_twice()
            self._check_the_end(*self._replay())
        finally:
            shutil.rmtree(self._folder)

    def _play_out(self) -> None:
        for _ in range(2000):
            if "scoreboard" in self.inside.book.state.reports:
                return
            if not self.inside.round():
                self.inside.wait(MINUTE)
        raise AssertionError(f"no results: {self.inside.book.state.clock}")

    def _check_the_end(self, state: State, cards: Catalog) -> None:
        assert state == self.inside.book.state
        assert cards == self.inside.book.catalog
        assert state.clock.stage == "results"
        assert not (state.sessions or state.attempts or state.jobs or state.calls)
        known: dict[str, Container[str]] = {
            "JobSubmitted": cards.jobs,
            "NominationRequested": cards.nominations,
            "EntrantFinished": state.corners,
        }
        for receipt in self.acknowledged.values():
            assert receipt.id in known[receipt.kind]
        for corner in state.corners:
            accepted = [
                one for one in cards.nominations.values() if one.corner == corner and one.state == "accepted"
            ]
            current = [one.nomination for one in accepted if one.current]
            latest = [one.nomination for one in accepted][-1:]
            assert current == latest
        scored = {sitting.target for sitting in state.exams.values() if sitting.correct is not None}
        assert scored == {"base", *(corner.current for corner in state.corners.values() if corner.current)}


TestCrashes = Crashes.TestCase
