"""`python -m palestra.serving.examine --plan PLAN`: serves one model and asks it a file of questions; answers are files.

What a house attempt runs, for probes and exams alike. Started again after a crash it asks only what is not answered yet.
Exit codes: 0 all asked, 2 the plan can't be read, 3 the model did not start or did not stay up, 143 ended by TERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import msgspec

from palestra.ports import Answer, Endpoint, Question
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import Micros
from palestra.serving.ask import Unanswered, ask_or_raise
from palestra.serving.plan import Done, Plan, read_answers, read_plan, read_questions
from palestra.serving.probes import judge_probes
from palestra.serving.process import ServerProcess

BAD_PLAN, NOT_SERVED, TERMED = 2, 3, 128 + signal.SIGTERM
_BETWEEN_LINES = 0.5
_DYING = 2.0
"""Seconds that a server has to be gone after its socket broke."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", type=Path, required=True)
    signal.signal(signal.SIGTERM, _leave)
    try:
        plan = read_plan(parser.parse_args().plan)
        questions = read_questions(Path(plan.requests))
    except BadInput as error:
        sys.stderr.write(f"examine: {error}\n")
        return BAD_PLAN
    Path(plan.done).unlink(missing_ok=True)
    examination = Examination(plan, questions)
    try:
        done = examination.run()
    except (Broken, BadInput) as error:
        done = examination.broken(str(error))
        sys.stderr.write(f"examine: {error}\n")
    write_done(Path(plan.done), done)
    return NOT_SERVED if done.error else 0


def _leave(number: int, frame: FrameType | None) -> None:
    """An exit that still stops the server on its way out."""
    sys.exit(TERMED)


class Examination:
    """One run of a plan: the model's turn, then the base's where there is something to compare."""

    def __init__(self, plan: Plan, questions: Sequence[Question]) -> None:
        self.plan = plan
        self.questions = questions
        self.comparing = bool(plan.base_argv or plan.base_model)
        self.progress = Progress(len(questions) * (2 if self.comparing else 1))
        self.ready: Micros | None = None
        self.base_ready: Micros | None = None
        self.trouble = ""

    def run(self) -> Done:
        plan = self.plan
        with self._serve(plan.argv) as server:
            started = server.wait_ready(self.questions[:8], plan.settings, plan.startup, plan.model)
            self.ready = started.ready
            answers = self._ask_all(server, started.endpoint, Path(plan.answers))
            base_answers: list[Answer] | None = None
            if plan.base_model and not plan.base_argv:
                endpoint = Endpoint(started.endpoint.socket, plan.base_model)
                base_answers = self._ask_all(server, endpoint, Path(plan.base_answers))
        if plan.base_argv:
            base_answers = self._ask_base()
        judged = judge_probes(answers, base_answers)
        return Done(
            n=len(answers), ready=self.ready, base_ready=self.base_ready, judged=judged, trouble=self.trouble
        )

    def _ask_base(self) -> list[Answer]:
        """The base's turn on a server of its own; none is started where all its answers are there already."""
        path = Path(self.plan.base_answers)
        known = {answer.id: answer for answer in read_answers(path)}
        if all(question.id in known for question in self.questions):
            self.progress.add(len(self.questions))
            return [known[question.id] for question in self.questions]
        with self._serve(self.plan.base_argv) as server:
            started = server.wait_ready(
                self.questions[:8], self.plan.settings, self.plan.startup, self.plan.base_model
            )
            self.base_ready = started.ready
            return self._ask_all(server, started.endpoint, path)

    def broken(self, error: str) -> Done:
        """What is so when the model could not be served: answers that came before count."""
        return Done(
            n=len(read_answers(Path(self.plan.answers))),
            error=error,
            ready=self.ready,
            base_ready=self.base_ready,
        )

    def _serve(self, argv: Sequence[str]) -> ServerProcess:
        folder = Path(self.plan.socket_folder) if self.plan.socket_folder else None
        return ServerProcess(argv, Path(self.plan.log), folder)

    def _ask_all(self, server: ServerProcess, endpoint: Endpoint, path: Path) -> list[Answer]:
        """Ask what isn't answered; in the questions' order again at the end."""
        known = {answer.id: answer for answer in read_answers(path)}
        left = [question for question in self.questions if question.id not in known]
        self.progress.add(len(self.questions) - len(left))
        with path.open("ab", buffering=0) as file, ThreadPoolExecutor(self.plan.parallel) as threads:
            writing = threading.Lock()

            def put(question: Question) -> None:
                answer = self._ask(server, endpoint, question)
                with writing:
                    file.write(msgspec.json.encode(answer) + b"\n")
                    known[answer.id] = answer
                    self.progress.add(1)

            try:
                for asked in [threads.submit(put, question) for question in left]:
                    asked.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                server.stop()  # the questions in flight end with it
                raise
            os.fsync(file.fileno())
        return [known[question.id] for question in self.questions]

    def _ask(self, server: ServerProcess, endpoint: Endpoint, question: Question) -> Answer:
        """A question that the model can't answer is its failure; a server that is gone is nobody's answer."""
        try:
            return ask_or_raise(endpoint, question, self.plan.settings, self.plan.patience)
        except Unanswered as error:
            if error.status == 0 and server.has_ended(_DYING):
                raise Broken(f"the model server {server.how_it_ended()}") from None
            self.trouble = self.trouble or f"{question.id}: {error}"
            return Answer(question.id, "", "error")


class Progress:
    """Lines that the arena reads off the attempt's output: at most two a second, and the last one always."""

    def __init__(self, of: int) -> None:
        self.of = of
        self.step = 0
        self._said = 0.0

    def add(self, count: int) -> None:
        self.step += count
        now = time.monotonic()
        if count and (self.step == self.of or now - self._said >= _BETWEEN_LINES):
            self._said = now
            sys.stdout.write(f"PALESTRA progress step={self.step} of={self.of}\n")
            sys.stdout.flush()


def write_done(path: Path, done: Done) -> None:
    """There completely or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(done))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
