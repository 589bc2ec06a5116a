"""Death of the server between any two steps, on fakes: no event lost, nothing started or paid twice, one current nomination."""

from __future__ import annotations

import tempfile
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

CORNERS = st.sampled_from(["A", "B"])


class Crashes(RuleBasedStateMachine):
    """What clients do, what time does, and kills anywhere in between. Clients ask again with the same key."""

    @initialize()
    def open(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.behaviours = [Behaviour(runs=Micros(10 * MINUTE))]
        self.outside = Outside(Path(self._folder.name), self._behave)
        self.inside = Inside(self.outside, competition(running=2 * HOUR, end_when_all_finished=True))
        self.acknowledged: dict[tuple[str, str], Receipt] = {}
        self.keys = 0

    def _behave(self, spec: AttemptSpec) -> Behaviour:
        return self.behaviours[sum(map(ord, spec.attempt)) % len(self.behaviours)]

    def _restart(self) -> None:
        self.inside = Inside(self.outside)

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

    @rule(steps=st.integers(0, 12))
    def doom(self, steps: int) -> None:
        self.inside.doom = steps

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
        self.inside.doom = None
        self._restart()
        for _ in range(2000):
            if not self.inside.round():
                self.inside.wait(MINUTE)
            if "scoreboard" in self.inside.book.state.reports:
                break
        self.nothing_twice()
        state, cards = self._replay()
        assert state == self.inside.book.state
        assert state.clock.stage == "results"
        assert not (state.sessions or state.attempts or state.jobs or state.calls)
        for receipt in self.acknowledged.values():
            known = {"JobSubmitted": cards.jobs, "NominationRequested": cards.nominations, "EntrantFinished": state.corners}
            assert receipt.id in known[receipt.kind]
        for corner in state.corners:
            current = [card for card in cards.nominations.values() if card.corner == corner and card.current]
            accepted = [card for card in cards.nominations.values() if card.corner == corner and card.state == "accepted"]
            assert len(current) == (1 if accepted else 0)
            assert all(card.nomination == max(accepted, key=lambda one: one.requested).nomination for card in current) or len(accepted) > 1
        self._folder.cleanup()


TestCrashes = Crashes.TestCase
