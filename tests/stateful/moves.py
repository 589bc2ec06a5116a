"""Everything that can be asked, reported or go wrong in a run, as rules for state machines, a class for each noun."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.building import GB, LORA, SEED, digest, spec
from tests.stateful.watched import Watched
from tests.world import QUESTIONS

from palestra.events.nominations import AnswerSettings
from palestra.referee.observations import (
    AttemptExited,
    AttemptLost,
    CallAnswered,
    CallUnused,
    CopyBroke,
    CopyDone,
    DocumentFrozen,
    ExamBroke,
    ExamGraded,
    Observation,
    Probed,
    QuestionsMade,
    ServerDown,
    ServerUp,
    SessionExited,
    SessionLost,
    TailSetAside,
    Tick,
    Trouble,
    TroubleOver,
)
from palestra.referee.requests import (
    CancelJob,
    EndRun,
    Finish,
    Nominate,
    Pause,
    Request,
    ReserveCall,
    Resume,
    SealCheckpoint,
    SubmitJob,
)
from palestra.referee.rulings import next_due
from palestra.rules.prices import Usage
from palestra.rules.units import HOUR, MINUTE, SECOND, Bytes, Moment
from palestra.state.clock import stage_end

corners = st.sampled_from(["A", "B"])
picks = st.integers(0, 5)
keyed = st.booleans()
seldom = st.integers(0, 3).map(lambda drawn: drawn == 3)
spans = st.sampled_from([0, 1, SECOND, MINUTE, 10 * MINUTE, HOUR])

NOTES = (
    None, CallUnused("A-c999", "429", 429), AttemptLost("A-j999.1"), SessionLost("A-s999"), CopyBroke("A-n9.c1", "no", "no"),
    Probed("A-n999", served=True), ExamBroke("x99", "no", "no"), Trouble("disk:n1", "filling up"), TroubleOver("disk:n1"),
    DocumentFrozen("daily", digest("a page"), 3), TailSetAside(17, "journal.db-wal.torn"),
)  # fmt: skip


class Machine(RuleBasedStateMachine):
    """A watched run, and what must hold of it after every step."""

    run: Watched
    keys = 0
    pid = 1

    @invariant()
    def what_must_hold_holds(self) -> None:
        if hasattr(self, "run"):
            self.run.check()

    def _ask(self, request: Request) -> None:
        self.run.ask(request)

    def _key(self, wanted: bool) -> str | None:
        self.keys += wanted
        return f"k{self.keys}" if wanted else None

    def _in(self, state: str) -> dict[str, Any]:
        return {name: one for name, one in self.run.state.nominations.items() if one.state == state}

    def _pick(self, room: Any, pick: int) -> Any:
        return list(room.values())[pick % len(room)]


class Times(Machine):
    """Time goes by, stages end."""

    @rule(span=spans, tick=st.booleans())
    def pass_time(self, span: int, tick: bool) -> None:
        self.run.at = Moment(self.run.at + span)
        if tick:
            self.run.tell(Tick())

    @precondition(lambda self: self.run.state.clock.stage != "running")
    @rule()
    def wake_when_due(self) -> None:
        due = next_due(self.run.state)
        self.run.until(self.run.at if due is None else max(due, self.run.at))

    @rule(sure=seldom)
    def reach_the_end(self, sure: bool) -> None:
        """To the stage's end, or to a microsecond before it."""
        if (end := stage_end(self.run.state)) is not None:
            self.run.until(max(self.run.at, end - (not sure)))


class Servers(Machine):
    """Servers are killed, stopped, followed by others."""

    @rule(
        how=st.sampled_from(["killed", "killed before the last rows were on disk", "stopped", "left"]),
        span=spans,
    )
    def replace_server(self, how: str, span: int) -> None:
        if how == "stopped":
            self.run.tell(ServerDown(self.pid, "stop"))
        if how in ("stopped", "left"):
            self.run.tell(ServerDown(self.pid, "gone"))
        self.run.at = Moment(self.run.at + span)
        self.run.crash(lost="before" in how)
        self.pid += 1
        self.run.tell(ServerUp(self.pid, "0"))
        for key in list(self.run.granted):
            self.run.ask_again(key)

    @rule(sure=seldom)
    def stop_server(self, sure: bool) -> None:
        """It has its work stopped, and is still there while that ends."""
        if sure:
            self.run.tell(ServerDown(self.pid, "stop"))


class Organisers(Machine):
    """Organisers step in."""

    @rule()
    def pause(self) -> None:
        self._ask(Pause("organiser:one", None, "a node is down"))

    @rule()
    def resume(self) -> None:
        self._ask(Resume("organiser:one", None))

    @rule(sure=seldom, key=keyed)
    def end(self, sure: bool, key: bool) -> None:
        if sure:
            self._ask(EndRun("organiser:one", self._key(key), "enough"))


class Calls(Machine):
    """Model calls."""

    @rule(corner=corners, bound=st.integers(1, 9_000), cap=st.none() | st.integers(1, 9_000))
    def reserve(self, corner: str, bound: int, cap: int | None) -> None:
        self._ask(ReserveCall(corner, None, "small", bound, cap))

    @precondition(lambda self: self.run.state.calls)
    @rule(
        pick=picks, usage=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 120))
    )
    def answer(self, pick: int, usage: tuple[int, int, int] | None) -> None:
        call = self._pick(self.run.state.calls, pick)
        used = None
        if usage is not None:
            fresh = call.input_bound * usage[0] // 100
            used = Usage(
                fresh_input=fresh,
                cached_input=(call.input_bound - fresh) * usage[1] // 100,
                output=call.output_cap * usage[2] // 100,
            )
        self.run.tell(CallAnswered(call.call, used, 200, "stop"))

    @precondition(lambda self: self.run.state.calls)
    @rule(pick=picks)
    def leave_unused(self, pick: int) -> None:
        self.run.tell(CallUnused(self._pick(self.run.state.calls, pick).call, "429", 429))


class Jobs(Machine):
    """Jobs and their attempts."""

    @rule(
        corner=corners, gpus=st.integers(1, 4), memory=st.integers(1, 6), limit=st.sampled_from([MINUTE, HOUR]), key=keyed
    )  # fmt: skip
    def submit(self, corner: str, gpus: int, memory: int, limit: int, key: bool) -> None:
        self._ask(SubmitJob(corner, self._key(key), spec(gpus=gpus, memory=memory * GB, limit=limit)))

    @precondition(lambda self: self.run.state.jobs)
    @rule(pick=picks, key=keyed)
    def cancel(self, pick: int, key: bool) -> None:
        job = self._pick(self.run.state.jobs, pick)
        self._ask(CancelJob(job.corner, self._key(key), job.job))


class Attempts(Machine):
    """Attempts end, one way or another."""

    @precondition(lambda self: self.run.state.attempts)
    @rule(
        pick=picks,
        code=st.sampled_from([0, 1, 137, None]),
        ran=st.none() | spans,
        over=picks,
        missing=st.booleans(),
    )
    def exit(self, pick: int, code: int | None, ran: int | None, over: int, missing: bool) -> None:
        attempt = self._pick(self.run.state.attempts, pick)
        ended = None if ran is None else self.run.at
        started = None if ran is None else Moment(self.run.at - ran)
        self.run.tell(
            AttemptExited(
                attempt.attempt, code, started, ended, over_time=over == 1, over_memory=over == 2,
                missing_outputs=("out",) if missing else (),
            )
        )  # fmt: skip

    @precondition(lambda self: self.run.state.attempts)
    @rule(pick=picks)
    def lose(self, pick: int) -> None:
        self.run.tell(AttemptLost(self._pick(self.run.state.attempts, pick).attempt))


class Agents(Machine):
    """Agents' processes, and what agents say."""

    @precondition(lambda self: self.run.state.sessions)
    @rule(pick=picks, lived=st.sampled_from([0, HOUR]), code=st.sampled_from([0, 1, None]))
    def leave(self, pick: int, lived: int, code: int | None) -> None:
        session = self._pick(self.run.state.sessions, pick)
        self.run.tell(SessionExited(session.session, code, lived))

    @precondition(lambda self: self.run.state.sessions)
    @rule(pick=picks)
    def vanish(self, pick: int) -> None:
        self.run.tell(SessionLost(self._pick(self.run.state.sessions, pick).session))

    @rule(corner=corners, key=keyed)
    def seal(self, corner: str, key: bool) -> None:
        self._ask(SealCheckpoint(corner, self._key(key), digest("w1"), "out/w1", Bytes(GB), 3))

    @rule(corner=corners, key=keyed)
    def finish(self, corner: str, key: bool) -> None:
        self._ask(Finish(corner, self._key(key)))


class Nominations(Machine):
    """Checkpoints, copies, validations."""

    @rule(corner=corners, weights=st.integers(1, 3), warm=st.booleans(), key=keyed)
    def nominate(self, corner: str, weights: int, warm: bool, key: bool) -> None:
        settings = AnswerSettings(temperature="0.7" if warm else "0")
        name = f"w{weights}"
        self._ask(Nominate(corner, self._key(key), digest(name), f"out/{name}", Bytes(GB), settings))

    @precondition(lambda self: self._in("copying"))
    @rule(pick=picks, changed=st.booleans())
    def keep(self, pick: int, changed: bool) -> None:
        one = self._pick(self._in("copying"), pick)
        artifact = digest("something else") if changed else one.artifact
        self.run.tell(CopyDone(one.copy, artifact, Bytes(GB), LORA))

    @precondition(lambda self: self._in("copying"))
    @rule(pick=picks)
    def break_copy(self, pick: int) -> None:
        one = self._pick(self._in("copying"), pick)
        self.run.tell(CopyBroke(one.copy, "unchanged_copy", "every tensor equals the base's"))

    @precondition(lambda self: self._in("validating"))
    @rule(
        pick=picks,
        done=st.booleans(),
        found=st.sampled_from(["well", "well", "unserved", "empty", "looping"]),
    )
    def probe(self, pick: int, done: bool, found: str) -> None:
        """The probes are read, as a rule after the house job that asked them has ended."""
        one = self._pick(self._in("validating"), pick)
        job = self.run.state.jobs.get(one.job)
        if done and job is not None and job.attempt:
            self.run.exit(one.job)
        empty, looping = (4 if found == kind else 0 for kind in ("empty", "looping"))
        self.run.tell(Probed(one.nomination, found != "unserved", "no", 4, 4, empty, looping, 2))


class Exams(Machine):
    """The end."""

    @rule(honest=st.booleans())
    def make_questions(self, honest: bool) -> None:
        self.run.tell(QuestionsMade(SEED if honest else "another", digest("questions"), QUESTIONS))

    @precondition(lambda self: self.run.state.exams)
    @rule(pick=picks, correct=st.integers(-1, QUESTIONS + 1))
    def grade(self, pick: int, correct: int) -> None:
        exam = self._pick(self.run.state.exams, pick).exam
        self.run.tell(ExamGraded(exam, correct, QUESTIONS, digest("answers")))

    @precondition(lambda self: self.run.state.exams)
    @rule(pick=picks)
    def fail_exam(self, pick: int) -> None:
        self.run.tell(ExamBroke(self._pick(self.run.state.exams, pick).exam, "not_served", "no"))


class Repetitions(Machine):
    """What was said is said again; strangers are told of; notes are taken."""

    @precondition(lambda self: self.run.granted)
    @rule(pick=picks)
    def ask_again(self, pick: int) -> None:
        self.run.ask_again(self._pick({key: key for key in self.run.granted}, pick))

    @precondition(lambda self: self.run.granted)
    @rule(pick=picks)
    def reuse_a_key(self, pick: int) -> None:
        actor, key = self._pick({key: key for key in self.run.granted}, pick)
        self.run.refuse(CancelJob(actor, key, "never-asked"))

    @precondition(lambda self: self.run.told)
    @rule(pick=st.integers(0, 30))
    def say_again(self, pick: int) -> None:
        self.run.tell_again(self.run.told[-1 - pick % len(self.run.told)])

    @rule(what=st.sampled_from(NOTES))
    def take_note(self, what: Observation | None) -> None:
        if what is not None:
            self.run.tell(what)
        for repeat in self.run.book.repeats():
            self.run.tell(repeat)
