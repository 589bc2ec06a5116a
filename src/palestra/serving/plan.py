"""What the examining program is given and what it leaves: a plan in, one line an answer and a closing note out, all JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from palestra.events.nominations import AnswerSettings
from palestra.ports import Answer, Question
from palestra.rules.errors import BadInput
from palestra.rules.units import MINUTE, Micros
from palestra.serving.probes import Judged


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model to be asked a file of questions, for validation and for exams alike. Paths are absolute or from the plan's folder."""

    argv: tuple[str, ...]
    """The server's; `{socket}` is still to be filled in."""
    settings: AnswerSettings
    requests: str
    """JSON lines of `Question`. The first also shows that the server is ready."""
    answers: str
    """JSON lines of `Answer`, appended as they come; ids found here are not asked again."""
    done: str
    """`Done`, written by rename at the end."""
    model: str = ""
    """The name to ask for; empty: `nominated` where the server has it, else its last one."""
    parallel: int = 32
    startup: Micros = Micros(5 * MINUTE)
    """From the server's start to its first real answer, at most."""
    patience: Micros = Micros(5 * MINUTE)
    """For one answer."""
    log: str = "server.log"
    socket_folder: str = ""
    """Where the socket's private folder is made; empty: the system's place for such files. Must be short."""
    base_argv: tuple[str, ...] = ()
    """A second server, for the base: started when the first is gone, asked the same, to count what differs."""
    base_model: str = ""
    """With no `base_argv`: the base's name on the first server, when it serves both."""
    base_answers: str = ""
    """Where the base's answers go; needed with either of the two above. Answers laid here beforehand are not asked for."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: `error` is empty when every question was asked."""

    n: int = 0
    """Answers there are, those of an earlier start too."""
    error: str = ""
    ready: Micros | None = None
    """From start to first real answer (F41); None when it never was."""
    base_ready: Micros | None = None
    judged: Judged | None = None
    trouble: str = ""
    """Why the first of the failed answers failed."""


def read_plan(path: Path) -> Plan:
    """The plan with its paths made absolute; `BadInput` says which field is wrong."""
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except FileNotFoundError:
        raise BadInput("plan", str(path), "there is no such file") from None
    except msgspec.DecodeError as error:
        raise BadInput("plan", str(path), str(error)) from None
    if not plan.argv:
        raise BadInput("plan: argv", plan.argv, "the command that starts the model server")
    if not 1 <= plan.parallel <= 1024:
        raise BadInput("plan: parallel", plan.parallel, "1 to 1024")
    if (plan.base_argv or plan.base_model) and not plan.base_answers:
        raise BadInput(
            "plan: base_answers", "", "a file for the base's answers, as base_argv or base_model is given"
        )
    folder = path.absolute().parent
    names = ("requests", "answers", "done", "log", "base_answers")
    return msgspec.structs.replace(
        plan, **{name: str(folder / value) for name in names if (value := getattr(plan, name))}
    )


def read_questions(path: Path) -> list[Question]:
    """The questions in order; `BadInput` when there is none, a line can't be read or an id comes twice."""
    try:
        questions = msgspec.json.Decoder(Question).decode_lines(path.read_bytes())
    except FileNotFoundError:
        raise BadInput("plan: requests", str(path), "there is no such file") from None
    except msgspec.DecodeError as error:
        raise BadInput("plan: requests", str(path), f"JSON lines of questions: {error}") from None
    ids = [question.id for question in questions]
    if not ids or len(set(ids)) < len(ids):
        raise BadInput("plan: requests", str(path), "at least one question, each id once")
    return questions


def read_answers(path: Path) -> list[Answer]:
    """The answers so far. A last line that a crash tore off is cut from the file, so that it is asked again."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return msgspec.json.Decoder(Answer).decode_lines(whole)


def write_lines(path: Path, items: Iterable[object]) -> None:
    """JSON lines, as questions are handed in."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(items)))


def read_done(path: Path) -> Done:
    return msgspec.json.decode(path.read_bytes(), type=Done)
