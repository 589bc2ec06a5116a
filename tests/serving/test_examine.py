"""The examining program, run for real over the fake server: plans in, answers and a closing note out; resumed, never repeated."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palestra.events.nominations import AnswerSettings
from palestra.ports import Answer, Question
from palestra.rules.errors import BadInput
from palestra.rules.units import SECOND, Micros
from palestra.serving.plan import Done, Plan, read_answers, read_done, read_plan, read_questions, write_lines
from palestra.serving.probes import Judged

FAKE = (sys.executable, "-m", "palestra.serving.fake", "--socket", "{socket}")
QUESTIONS = [Question(f"q{n}", (("user", f"say word{n}"),), 8) for n in range(8)]


class Desk:
    """A folder with a plan in it, and the program run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_lines(folder / "requests.jsonl", QUESTIONS)

    def plan(self, *more: str, **fields: Any) -> None:
        plan = Plan(
            argv=(*FAKE, *more),
            settings=fields.pop("settings", AnswerSettings()),
            requests="requests.jsonl",
            answers="answers.jsonl",
            done="done.json",
            parallel=4,
            **fields,
        )
        (self.folder / "plan.json").write_bytes(msgspec.json.encode(plan))

    def start(self) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "palestra.serving.examine", "--plan", str(self.folder / "plan.json")]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self) -> tuple[int, str, str]:
        with self.start() as program:
            out, err = program.communicate(timeout=100)
        return program.returncode, out, err

    def answers(self, name: str = "answers.jsonl") -> dict[str, Answer]:
        return {answer.id: answer for answer in read_answers(self.folder / name)}

    @property
    def done(self) -> Done:
        return read_done(self.folder / "done.json")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def wait_until(so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not so():
        assert time.monotonic() < give_up
        time.sleep(0.01)  # between two looks


def test_all_questions_are_asked_and_judged(desk: Desk) -> None:
    desk.plan("--names", "only", "--answers", "echo")
    code, out, _ = desk.run()
    assert code == 0
    assert desk.answers() == {f"q{n}": Answer(f"q{n}", f"say word{n}", "stop") for n in range(8)}
    assert out.splitlines()[-1] == "PALESTRA progress step=8 of=8"
    done = desk.done
    assert (done.n, done.error, done.trouble, done.base_ready) == (8, "", "", None)
    assert done.ready is not None and done.ready > 0
    assert done.judged == Judged(probes=8, stopped=8)


def test_endless_and_empty_answers_are_judged(desk: Desk) -> None:
    """S41."""
    desk.plan("--answers", "loop", "--text", "la", settings=AnswerSettings(max_tokens=100))
    write_lines(desk.folder / "requests.jsonl", [Question("q", (("user", "sing"),), 100)])
    assert desk.run()[0] == 0
    assert desk.done.judged == Judged(probes=1, looping=1)
    (desk.folder / "answers.jsonl").unlink()
    desk.plan("--answers", "empty")
    assert desk.run()[0] == 0
    assert desk.done.judged == Judged(probes=1, stopped=1, empty=1)


@pytest.mark.parametrize("way", ["same server", "second server"])
def test_answers_are_compared_with_the_bases(desk: Desk, way: str) -> None:
    """F30: proof that the nominated model is not the base, in the serving path."""
    if way == "same server":
        desk.plan("--answers", "fixed", base_model="base", base_answers="base.jsonl")
    else:
        base = (*FAKE, "--names", "base", "--answers", "echo")
        desk.plan("--answers", "fixed", base_argv=base, base_answers="base.jsonl")
    code, out, _ = desk.run()
    assert code == 0
    assert desk.done.judged == Judged(probes=8, stopped=8, differing=8)
    assert (desk.done.base_ready is not None) == (way == "second server")
    assert desk.answers("base.jsonl")["q3"].text == "say word3"
    assert "step=16 of=16" in out


def test_base_answers_that_are_known_need_no_second_server(desk: Desk) -> None:
    """The base's answers to the same probes and settings can be laid there from an earlier validation."""
    desk.plan("--answers", "fixed", base_argv=("no-such-program",), base_answers="base.jsonl")
    write_lines(desk.folder / "base.jsonl", [Answer(f"q{n}", "ok" if n else "no", "stop") for n in range(8)])
    code, out, _ = desk.run()
    assert code == 0
    assert desk.done.judged == Judged(probes=8, stopped=8, differing=1)
    assert desk.done.base_ready is None
    assert out.splitlines()[-1] == "PALESTRA progress step=16 of=16"


def test_an_adapter_without_effect_differs_nowhere(desk: Desk) -> None:
    """F30: 200 OK and the base's answers."""
    desk.plan("--answers", "echo", base_model="base", base_answers="base.jsonl")
    assert desk.run()[0] == 0
    assert desk.done.judged == Judged(probes=8, stopped=8, differing=0)


def test_what_is_answered_is_not_asked_again(desk: Desk) -> None:
    """After a crash: answers stay as they were, a torn last line is asked anew, an old closing note is gone."""
    desk.plan("--answers", "fixed")
    kept = [Answer(f"q{n}", "from before", "stop") for n in range(5)]
    write_lines(desk.folder / "answers.jsonl", kept)
    with (desk.folder / "answers.jsonl").open("ab") as file:
        file.write(b'{"id":"q5","text":"to')
    (desk.folder / "done.json").write_text('{"n":1,"error":"an earlier end"}')
    assert desk.run()[0] == 0
    texts = {answer.id: answer.text for answer in desk.answers().values()}
    assert texts == {**{f"q{n}": "from before" for n in range(5)}, **{f"q{n}": "ok" for n in range(5, 8)}}
    assert (desk.done.n, desk.done.error) == (8, "")


def test_a_server_that_does_not_start_ends_with_its_log(desk: Desk) -> None:
    """S26: exit code 3, and the reason for the entrant."""
    desk.plan("--answers", "nonsense")
    code, _, err = desk.run()
    assert code == 3
    assert "invalid choice: 'nonsense'" in desk.done.error
    assert (desk.done.n, desk.done.ready, desk.done.judged) == (0, None, None)
    assert "invalid choice" in err


def test_a_server_that_is_too_slow_ends_with_the_budget(desk: Desk) -> None:
    """F41."""
    desk.plan("--slow-start", "3600", startup=Micros(SECOND // 2))
    assert desk.run()[0] == 3
    assert "not ready within 0.5 s" in desk.done.error


def test_a_server_that_dies_gives_no_wrong_answers(desk: Desk) -> None:
    """The arena's own fault is never an entrant's failed answer: what wasn't answered is asked after the restart."""
    script = desk.folder / "mortal.py"
    script.write_text(
        "import os, sys\nfrom palestra.serving import fake\ncount = 0\n"
        "def complete(self, fields, real=fake.FakeModel.complete):\n"
        "    global count\n    count += 1\n"
        "    if count > 5:\n        os.write(2, b'out of memory'); os._exit(9)\n"
        "    return real(self, fields)\n"
        "fake.FakeModel.complete = complete\nfake.main()\n"
    )
    desk.plan("--answers", "fixed")
    plan = msgspec.json.decode((desk.folder / "plan.json").read_bytes())
    mortal = {**plan, "argv": [sys.executable, str(script), "--socket", "{socket}"], "parallel": 1}
    (desk.folder / "plan.json").write_bytes(msgspec.json.encode(mortal))
    assert desk.run()[0] == 3
    assert "ended with exit code 9; its log ends: out of memory" in desk.done.error
    assert [answer.finish for answer in desk.answers().values()] == ["stop"] * 4
    assert desk.done.n == 4
    (desk.folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    assert desk.run()[0] == 0
    assert (desk.done.n, desk.done.judged) == (8, Judged(probes=8, stopped=8))


def test_a_question_that_the_model_refuses_is_its_failed_answer(desk: Desk) -> None:
    odd = Question("odd", (("assistant", "hm"),), 8)
    write_lines(desk.folder / "requests.jsonl", [odd, *QUESTIONS])
    desk.plan("--names", "only")
    assert desk.run()[0] == 0
    assert desk.answers()["odd"] == Answer("odd", "", "error")
    assert desk.done.trouble.startswith("odd: /v1/chat/completions answered 400")
    assert desk.done.judged == Judged(probes=9, stopped=8, failed=1)


def test_term_stops_the_server_too(desk: Desk) -> None:
    """Preempted: nothing is left running, and nothing says that it was done."""
    desk.plan("--slow-start", "3600")
    with desk.start() as program:
        log = desk.folder / "server.log"
        wait_until(lambda: log.exists() and len(children_of(program.pid)) == 1)
        server = children_of(program.pid)[0]
        program.terminate()
        program.communicate(timeout=60)
    assert program.returncode == 128 + signal.SIGTERM
    wait_until(lambda: "palestra.serving" not in command_of(server))
    assert not (desk.folder / "done.json").exists()


def command_of(pid: int) -> str:
    """Empty for one that is gone; its number may by then be another's."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"argv": []}, "plan: argv"),
        ({"parallel": 0}, "plan: parallel"),
        ({"base_model": "base"}, "plan: base_answers"),
        ({"settings": {"heat": "1"}}, "unknown field `heat`"),
        ({"surprise": 1}, "unknown field `surprise`"),
    ],
)
def test_a_plan_that_cannot_be_read_is_named(desk: Desk, fields: dict[str, Any], said: str) -> None:
    desk.plan()
    plan = msgspec.json.decode((desk.folder / "plan.json").read_bytes())
    (desk.folder / "plan.json").write_bytes(msgspec.json.encode({**plan, **fields}))
    with pytest.raises(BadInput, match=said):
        read_plan(desk.folder / "plan.json")


def test_a_bad_plan_is_exit_code_2(desk: Desk) -> None:
    code, _, err = desk.run()
    assert (code, "there is no such file" in err) == (2, True)


@pytest.mark.parametrize(
    "lines", [b"", b"{}\n", b"nonsense\n", b'{"id":"a","messages":[],"max_tokens":1}\n' * 2]
)
def test_questions_must_be_there_once_each(tmp_path: Path, lines: bytes) -> None:
    (tmp_path / "requests.jsonl").write_bytes(lines)
    with pytest.raises(BadInput, match="plan: requests"):
        read_questions(tmp_path / "requests.jsonl")
