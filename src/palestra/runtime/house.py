"""The arena's own work as house attempts: what to ask a served model is laid out in a folder, and read back from it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palestra.events.nominations import AnswerSettings
from palestra.ports import Answer, Exam, Question
from palestra.rules.competition import Serving
from palestra.serving.plan import Done, Plan, read_answers, read_done, write_lines
from palestra.serving.process import fill

PROBES = 8
"""Questions that a nominated model is asked before it becomes current, made from a public seed."""


class HouseFolder:
    """One folder a house job: its plan, the questions, the answers as they come, and how it ended."""

    def __init__(self, root: Path, job: str) -> None:
        self.path = root / job
        self.plan = self.path / "plan.json"
        self.questions = self.path / "questions.jsonl"
        self.answers = self.path / "answers.jsonl"
        self.base_answers = self.path / "base_answers.jsonl"
        self.done = self.path / "done.json"

    def argv(self) -> tuple[str, ...]:
        """What the house attempt runs."""
        return (sys.executable, "-m", "palestra.serving.examine", "--plan", str(self.plan))

    def read_done(self) -> Done | None:
        """How it ended; None when it never got there."""
        return read_done(self.done) if self.done.exists() else None

    def read_answers(self) -> list[Answer]:
        """The model's answers, in the order they came."""
        return read_answers(self.answers)


class Served(msgspec.Struct, frozen=True):
    """A model to be served: the base (no folder), an adapter, or a full model."""

    folder: Path | None
    kind: str
    settings: AnswerSettings


class House:
    """Lays out validations and exams. One a run."""

    def __init__(self, root: Path, serving: Serving, base: Path, exam: Exam, run: str) -> None:
        self._root = root
        self._serving = serving
        self._base = base
        self._exam = exam
        self._probe_seed = hashlib.sha256(f"probes of {run}".encode()).hexdigest()

    def folder(self, job: str) -> HouseFolder:
        """The folder of a house job."""
        return HouseFolder(self._root, job)

    def lay_out_validation(self, job: str, served: Served) -> HouseFolder:
        """The model and the base are asked the same probes."""
        questions = self._exam.questions(self._probe_seed, PROBES)
        return self._lay_out(job, served, questions, self.base())

    def lay_out_exam(self, job: str, served: Served, questions: Sequence[Question]) -> HouseFolder:
        """One model is asked the hidden questions."""
        return self._lay_out(job, served, questions, None)

    def base(self) -> Served:
        """The base model, asked with default settings."""
        return Served(None, "base", AnswerSettings())

    def _lay_out(
        self, job: str, served: Served, questions: Sequence[Question], compare: Served | None
    ) -> HouseFolder:
        folder = self.folder(job)
        folder.path.mkdir(parents=True, exist_ok=True)
        write_lines(folder.questions, questions)
        plan = Plan(
            argv=self._argv(served),
            model=self._model(served),
            settings=served.settings,
            requests=str(folder.questions),
            answers=str(folder.answers),
            done=str(folder.done),
            log=str(folder.path / "server.log"),
            parallel=self._serving.parallel,
            startup=self._serving.longest,
            base_argv=self._argv(compare) if compare else (),
            base_model=self._model(compare) if compare else "",
            base_answers=str(folder.base_answers) if compare else "",
        )
        draft = folder.plan.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(plan))
        draft.replace(folder.plan)
        return folder

    def _argv(self, served: Served) -> tuple[str, ...]:
        """The serving template of this kind of model; `{socket}` is filled in by the attempt itself."""
        template = {"base": self._serving.base, "lora": self._serving.adapter, "full": self._serving.full}[
            served.kind
        ]
        words = [sys.executable if word == "python" else word for word in template]
        return fill(words, self._base, served.folder)

    @staticmethod
    def _model(served: Served) -> str:
        return "base" if served.kind == "base" else "nominated"
