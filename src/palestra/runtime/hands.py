"""What the reconciler's acts do: an act and the state in, a function to run in a thread out, which returns facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from palestra.agents import find_harness
from palestra.agents.seat import Seat
from palestra.ports import AttemptSpec, Blobs, Exam, Executor, Processes, Question, Vault
from palestra.referee.observations import (
    DocumentFrozen,
    ExamBroke,
    ExamGraded,
    Observation,
    Probed,
    QuestionsMade,
)  # fmt: skip
from palestra.report.scoreboard import board_bytes
from palestra.rules.errors import Broken
from palestra.rules.manifest import read_identity
from palestra.rules.units import Bytes, Digest, Micros
from palestra.runtime import compare
from palestra.runtime.compare import Act, house_target
from palestra.runtime.house import House, Served
from palestra.state.arena import Attempt, State
from palestra.state.catalog import View
from palestra.state.exams import BASE
from palestra.state.queue import HOUSE

HOUSE_SEES = (
    "PATH", "HOME", "LANG", "LC_", "TMPDIR", "PYTHON", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "OMP_", "MKL_", "OPENBLAS_",
    "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "HF_HUB_OFFLINE", "TOKENIZERS_",
)  # fmt: skip
"""Beginnings of the variables that a model server gets: it reads entrants' files, so it must not hold anyone's keys."""

Facts = Callable[[], list[Observation]]


class Surroundings(msgspec.Struct, frozen=True):
    """Paths and texts of a run that acts need."""

    spool: Path
    homes: Path
    base: Path
    reports: Path
    tokens: dict[str, str]
    sockets: dict[str, str]
    arena: Path
    python: str
    exam_seed: str
    environment: tuple[str, ...] = ()
    """Folders put on the PATH of agents and jobs."""


class Hands:
    """One method an act. Everything is read off the state before the function runs; every effect is safe to repeat."""

    def __init__(
        self,
        executor: Executor,
        sessions: Processes,
        vault: Vault,
        blobs: Blobs,
        exam: Exam,
        house: House,
        around: Surroundings,
        keep: Callable[[bytes], Digest],
    ) -> None:
        self._executor = executor
        self._sessions = sessions
        self._vault = vault
        self._blobs = blobs
        self._exam = exam
        self._house = house
        self._around = around
        self._keep = keep

    def prepare(self, act: Act, view: View) -> Facts:
        """The function that does this act."""
        state = view.state
        match act:
            case compare.StartAttempt(attempt=attempt):
                return self._start_attempt(state, state.attempts[attempt])
            case compare.StopAttempt(attempt=attempt):
                stop = (
                    self._executor.preempt
                    if state.attempts[attempt].stopping == "server_stop"
                    else self._executor.cancel
                )
                return _does(lambda: stop(attempt))
            case compare.StartSession(session=session):
                return self._start_session(state, session)
            case compare.StopSession(session=session):
                return _does(lambda: self._sessions.stop(session))
            case compare.StartCopy(nomination=nomination):
                return self._start_copy(state, nomination)
            case compare.ForgetCopy(copy=copy):
                return _does(lambda: self._vault.forget(copy))
            case compare.JudgeProbes(nomination=nomination, job=job):
                return lambda: [self._judge_probes(nomination, job)]
            case compare.MakeQuestions():
                return lambda: [self._make_questions(state.rules.exam.questions)]
            case compare.GradeExam(exam=exam, job=job):
                sitting = state.exams[exam]
                return lambda: [self._grade(exam, job, sitting.seed, sitting.n)]
            case compare.FreezeScoreboard():
                return self._freeze_scoreboard(view)
        raise TypeError(f"no hands for {type(act).__name__}")

    def _start_attempt(self, state: State, attempt: Attempt) -> Facts:
        job = state.jobs[attempt.job]
        if attempt.corner == HOUSE:
            return self._start_house(state, attempt)
        home = self._home(attempt.corner)
        spec = job.spec
        number = attempt.attempt.rpartition(".")[2]
        env = {
            "HOME": str(home),
            "PATH": ":".join((*self._around.environment, "/usr/local/bin", "/usr/bin", "/bin")),
            "LANG": "C.UTF-8",
            "PALESTRA_ATTEMPT": attempt.attempt,
            "PALESTRA_ATTEMPT_NUMBER": number,
            "PALESTRA_BASE": str(self._around.base),
            "PALESTRA_DATA": str(home / "data"),
            "OMP_NUM_THREADS": "1"
            if state.rules.nodes[0].gpu_kind == "slot"
            else str(4 * max(1, len(attempt.gpus))),
        }

        def start() -> list[Observation]:
            argv = spec.argv
            if spec.script is not None:
                script = self._around.spool / "scripts" / attempt.job
                script.parent.mkdir(parents=True, exist_ok=True)
                script.write_bytes(self._blobs.open(spec.script))
                argv = tuple(str(script) if word == "{script}" else word for word in argv)
            self._submit(attempt, argv, spec.cwd, env, spec.outputs)
            return []

        return start

    def _start_house(self, state: State, attempt: Attempt) -> Facts:
        job = state.jobs[attempt.job]
        word, target = house_target(job.purpose)
        if word == "validate":
            nomination = state.nominations[target]
            served = self._served(state, nomination.nomination)
            questions = None
        else:
            sitting = state.exams[target]
            served = self._house.base() if sitting.target == BASE else self._served(state, sitting.target)
            questions = sitting.questions
        env = {name: value for name, value in os.environ.items() if name.startswith(HOUSE_SEES)}
        env["PALESTRA_ATTEMPT"] = attempt.attempt

        def start() -> list[Observation]:
            if questions is None:
                folder = self._house.lay_out_validation(job.job, served)
            else:
                hidden = msgspec.json.decode(self._blobs.open(questions), type=list[Question])
                folder = self._house.lay_out_exam(job.job, served, hidden)
            self._submit(attempt, folder.argv(), str(folder.path), env, ())
            return []

        return start

    def _served(self, state: State, nomination: str) -> Served:
        one = state.nominations[nomination]
        return Served(self._vault.path(one.artifact), state.kept[one.artifact].kind, one.settings)

    def _submit(
        self, attempt: Attempt, argv: tuple[str, ...], cwd: str, env: dict[str, str], outputs: tuple[str, ...]
    ) -> None:
        spec = AttemptSpec(
            attempt=attempt.attempt,
            corner=attempt.corner,
            argv=argv,
            cwd=cwd,
            env=tuple(sorted(env.items())),
            node=attempt.node,
            gpus=attempt.gpus,
            memory=Bytes(attempt.memory),
            limit=Micros(attempt.limit),
            outputs=outputs,
        )
        self._executor.submit(spec, attempt.attempt)

    def _start_session(self, state: State, session: str) -> Facts:
        corner = state.sessions[session].corner
        seat = state.corners[corner]
        home = self._home(corner)
        facts = Seat(
            corner=corner,
            session=session,
            home=str(home),
            socket=self._around.sockets[corner],
            token=self._around.tokens[corner],
            arena=str(self._around.arena),
            python=self._around.python,
            base=str(self._around.base),
            data=str(home / "data"),
            model=seat.model,
            command=seat.command,
            environment=self._around.environment,
        )
        process = find_harness(seat.harness)(facts)
        return _does(lambda: self._sessions.start(process, session))

    def _home(self, corner: str) -> Path:
        return self._around.homes / corner / "home"

    def _start_copy(self, state: State, nomination: str) -> Facts:
        one = state.nominations[nomination]
        source = self._home(one.corner) / one.path

        def start() -> list[Observation]:
            self._vault.copy(read_identity(self._blobs.open(one.artifact)), source, one.copy)
            return []

        return start

    def _judge_probes(self, nomination: str, job: str) -> Observation:
        folder = self._house.folder(job)
        done = folder.read_done()
        if done is None:
            return Probed(
                nomination,
                served=False,
                error="the validation ended without a result; see the house job's log",
            )
        if done.error or done.judged is None:
            return Probed(nomination, served=False, error=done.error or "no probe was answered")
        read = done.judged
        if read.failed == read.probes:
            return Probed(nomination, served=False, error=f"no probe got an answer: {done.trouble}")
        return Probed(
            nomination, True, "", read.probes, read.stopped, read.empty, read.looping, read.differing
        )

    def _make_questions(self, n: int) -> Observation:
        questions = self._exam.questions(self._around.exam_seed, n)
        return QuestionsMade(self._around.exam_seed, self._keep(msgspec.json.encode(questions)), n)

    def _grade(self, exam: str, job: str, seed: str, n: int) -> Observation:
        folder = self._house.folder(job)
        done = folder.read_done()
        if done is None or done.error:
            why = (
                done.error if done is not None else "the exam ended without a result; see the house job's log"
            )
            return ExamBroke(exam, "not_served", why)
        answers = folder.read_answers()
        try:
            score = self._exam.score(seed, n, answers)
        except Broken as error:
            return ExamBroke(exam, "not_scored", str(error))
        kept = self._keep(msgspec.json.encode(sorted(answers, key=lambda answer: answer.id)))
        return ExamGraded(exam, score.correct, score.n, kept)

    def _freeze_scoreboard(self, view: View) -> Facts:
        data, upto = board_bytes(view.state, view.catalog), view.state.seq

        def freeze() -> list[Observation]:
            path = self._around.reports / "scoreboard.json"
            draft = path.with_suffix(".draft")
            draft.write_bytes(data)
            draft.replace(path)
            return [DocumentFrozen(compare.SCOREBOARD, self._keep(data), upto)]

        return freeze


def _threads(state: State, attempt: Attempt) -> str:
    """CPU threads that a job's libraries should use: one a slot, four a GPU; more would only take them from others."""
    kind = next(node.gpu_kind for node in state.rules.nodes if node.name == attempt.node)
    return str(max(1, len(attempt.gpus)) * (1 if kind == "slot" else 4))


def _does(act: Callable[[], None]) -> Facts:
    def run() -> list[Observation]:
        act()
        return []

    return run
