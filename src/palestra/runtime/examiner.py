"""The organiser's exam program as a child: seeds in, questions and scores out. It never runs where agents can reach it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palestra.ports import Answer, Question, Score
from palestra.rules.errors import Broken

LONGEST = 300.0
"""Seconds that making or scoring questions may take."""


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str


class _Line(msgspec.Struct, frozen=True):
    id: str
    messages: tuple[_Message, ...]
    max_tokens: int


class _Result(msgspec.Struct, frozen=True):
    n: int
    correct: int


class ExamProgram:
    """`exam.py questions|score --seed HEX --n N ARGS`, as JSON lines."""

    def __init__(self, program: Path, args: Sequence[str], *, longest: float = LONGEST) -> None:
        self._program = program
        self._args = tuple(args)
        self._longest = longest
        self._running: set[subprocess.Popen[bytes]] = set()

    def questions(self, seed: str, n: int) -> list[Question]:
        """The n questions of a seed, always the same ones."""
        lines = self._run("questions", seed, n, b"").splitlines()
        found = [self._question(line) for line in lines if line.strip()]
        if len(found) != n or len({question.id for question in found}) != n:
            raise Broken(
                f"{self._program.name} made {len(found)} questions; asked for were {n}, each with an id of its own",
                retry=False,
            )
        return found

    def score(self, seed: str, n: int, answers: Sequence[Answer]) -> Score:
        """Correct of n; a missing answer counts as wrong."""
        lines = b"\n".join(msgspec.json.encode(answer) for answer in answers)
        try:
            result = msgspec.json.decode(self._run("score", seed, n, lines), type=_Result)
        except msgspec.DecodeError as error:
            raise Broken(f"{self._program.name} score printed no result: {error}", retry=False) from error
        if result.n != n or not 0 <= result.correct <= n:
            raise Broken(
                f"{self._program.name} scored {result.correct} of {result.n}, asked was n = {n}", retry=False
            )
        return Score(result.correct, result.n)

    def _question(self, line: bytes) -> Question:
        try:
            read = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise Broken(
                f"{self._program.name} questions printed a line that is no question: {error}", retry=False
            ) from error
        if not read.messages or read.max_tokens < 1:
            raise Broken(
                f"{self._program.name} questions printed {read.id!r} without a message or with max_tokens below 1",
                retry=False,
            )
        return Question(read.id, tuple((one.role, one.content) for one in read.messages), read.max_tokens)

    def _run(self, verb: str, seed: str, n: int, stdin: bytes) -> bytes:
        argv = [sys.executable, str(self._program), verb, "--seed", seed, "--n", str(n), *self._args]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as child:
            self._running.add(child)
            try:
                out, err = child.communicate(stdin, timeout=self._longest)
            except subprocess.TimeoutExpired:
                _kill(child)
                raise Broken(f"{self._program.name} {verb} took longer than {self._longest:g} s") from None
            finally:
                self._running.discard(child)
        if child.returncode:
            tail = err.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise Broken(
                f"{self._program.name} {verb} ended with exit code {child.returncode}: {tail[0]}", retry=False
            )
        return out

    def stop(self) -> None:
        """Kill what runs: whoever waits for it gets `Broken`. The same questions can be made again at any time."""
        for child in tuple(self._running):
            _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """With all that it started. Of one that has ended nothing is touched: its number may be another's by now."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
