"""The organiser's exam program: what it must print, and a clear sentence for everything else it might do."""

from __future__ import annotations

from pathlib import Path

import pytest

from palestra.ports import Answer, Question, Score
from palestra.rules.errors import Broken
from palestra.runtime.examiner import ExamProgram

LINE = '{"id": "q1", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}'


def program(folder: Path, text: str, longest: float = 30.0) -> ExamProgram:
    (folder / "exam.py").write_text(text)
    return ExamProgram(folder / "exam.py", ["--tier", "tiny"], longest=longest)


def says(folder: Path, text: str, n: int = 1, longest: float = 30.0, verb: str = "questions") -> str:
    """What is told of a program that does something wrong."""
    exam = program(folder, text, longest)
    with pytest.raises(Broken) as told:
        exam.questions("5eed", n) if verb == "questions" else exam.score("5eed", n, [])
    said = str(told.value)
    assert "\n" not in said and "Traceback" not in said
    return said


def test_seed_n_and_arguments_go_in_questions_come_out(tmp_path: Path) -> None:
    text = """
import json, sys
for number in range(int(sys.argv[5])):
    messages = [{"role": "system", "content": "é"}, {"role": "user", "content": " ".join(sys.argv[1:])}]
    print(json.dumps({"id": f"q{number}", "messages": messages, "max_tokens": 4, "answer": "secret"}, ensure_ascii=False))
    print()
"""
    found = program(tmp_path, text).questions("5eed", 2)
    argv = "questions --seed 5eed --n 2 --tier tiny"
    assert found == [Question(f"q{n}", (("system", "é"), ("user", argv)), 4) for n in range(2)]


def test_answers_go_in_as_lines_a_score_comes_out(tmp_path: Path) -> None:
    text = """
import json, sys
given = [json.loads(line) for line in sys.stdin]
assert all(set(one) == {"id", "text", "finish"} for one in given)
print(json.dumps({"n": 3, "correct": sum(one["text"] == "yes \\n" for one in given)}))
"""
    answers = [Answer("q1", "yes \n", "stop"), Answer("q2", "no", "length")]
    assert program(tmp_path, text).score("5eed", 3, answers) == Score(1, 3)
    assert program(tmp_path, text).score("5eed", 3, []) == Score(0, 3)


def test_one_that_hangs_is_cut_off(tmp_path: Path) -> None:
    assert (
        says(tmp_path, "import time\ntime.sleep(600)", longest=0.5)
        == "exam.py questions took longer than 0.5 s"
    )
    hangs = "import subprocess, sys\nsubprocess.Popen(['sleep', '5'])"  # its child holds the pipe
    assert says(tmp_path, hangs, longest=0.5) == "exam.py questions took longer than 0.5 s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('hello')", "exam.py questions printed a line that is no question: JSON is malformed"),
        ("print('{}')", "exam.py questions printed a line that is no question: Object missing required field"),
        ("import sys\nsys.stdout.buffer.write(b'\\xff\\xfe')", "exam.py questions printed a line that is no question: "),
        (f"print('''{LINE.replace('4', '0')}''')", "exam.py questions printed 'q1' without a message or with max_tokens below 1"),
        ('print(\'{"id": "q1", "messages": [], "max_tokens": 4}\')', "exam.py questions printed 'q1' without a message"),
        ("pass", "exam.py made 0 questions; asked for were 1, each with an id of its own"),
        (f"print('''{LINE}''')\nprint('''{LINE}''')", "exam.py made 2 questions; asked for were 1, each with an id of its own"),
        ("import sys\nsys.exit(3)", "exam.py questions ended with exit code 3: no message"),
        ("import sys\nsys.exit('no words left')", "exam.py questions ended with exit code 1: no words left"),
        ("{}['x']", "exam.py questions ended with exit code 1: KeyError: 'x'"),
        ("this isn't Python", "exam.py questions ended with exit code 1: SyntaxError: "),
        ("import os\nos.abort()", "exam.py questions ended with exit code -6: no message"),
    ],
)  # fmt: skip
def test_programs_that_make_no_questions(tmp_path: Path, text: str, said: str) -> None:
    assert says(tmp_path, text).startswith(said)


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    assert says(tmp_path, f"print('''{LINE}''')\nprint('''{LINE}''')", n=2) == (
        "exam.py made 2 questions; asked for were 2, each with an id of its own"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('74 %')", "exam.py score printed no result: "),
        ("pass", "exam.py score printed no result: "),
        ('print(\'{"n": 3, "correct": "2"}\')', "exam.py score printed no result: Expected `int`"),
        ('print(\'{"n": 2, "correct": 2}\')', "exam.py scored 2 of 2, asked was n = 3"),
        ('print(\'{"n": 3, "correct": 4}\')', "exam.py scored 4 of 3, asked was n = 3"),
        ('print(\'{"n": 3, "correct": -1}\')', "exam.py scored -1 of 3, asked was n = 3"),
        ("raise ValueError('bad day')", "exam.py score ended with exit code 1: ValueError: bad day"),
    ],
)
def test_programs_that_score_nothing(tmp_path: Path, text: str, said: str) -> None:
    assert says(tmp_path, text, n=3, verb="score").startswith(said)


def test_a_program_that_isnt_there(tmp_path: Path) -> None:
    with pytest.raises(
        Broken, match=r"exam.py questions ended with exit code 2: .*No such file or directory"
    ):
        ExamProgram(tmp_path / "exam.py", []).questions("5eed", 1)
