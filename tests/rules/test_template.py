"""What `palestra new` lays down: rules without a fault, files that are there, an exam that keeps its contract."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from palestra.rules.competition import Competition
from palestra.rules.read import read_competition

TEMPLATE = Path(__file__).parents[2] / "src" / "palestra" / "cli" / "template"


def rules() -> Competition:
    text = (TEMPLATE / "competition.toml").read_text().replace("@NAME@", "spring-arena")
    return read_competition(text, zones=frozenset({"UTC"}))


def exam(verb: str, seed: str, n: int, answers: str = "") -> str:
    argv = [sys.executable, "-I", "-S", str(TEMPLATE / "exam.py"), verb, "--seed", seed, "--n", str(n)]
    done = subprocess.run(argv, input=answers, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def right(prompt: str) -> str:
    """The exam's rules said once more, on their own."""
    task, word = prompt.removeprefix("please ").replace(":", "").split()
    return {"wrap": f"[{word}]", "caps": word.upper(), "last": word[2:]}[task]


def test_the_template_is_read_without_a_fault_and_names_files_that_are_there_or_made() -> None:
    read = rules()
    made = {step.creates for step in read.prepare}
    assert made == {read.base.path, *(data.path for data in read.data)}
    assert (TEMPLATE / read.exam.program).is_file()
    assert (TEMPLATE / "terms.md").is_file()
    for model in read.models:
        playbook = TEMPLATE / read.upstreams[0].playbooks / f"{model.upstream_model}.toml"
        assert tomllib.loads(playbook.read_text())["turn"]


def test_its_name_is_filled_in() -> None:
    assert rules().name == rules().title == "spring-arena"


def test_its_exam_gives_the_same_questions_for_a_seed_and_scores_their_answers() -> None:
    asked = exam("questions", "ab12", 40)
    assert asked == exam("questions", "ab12", 40) != exam("questions", "ab13", 40)
    questions = [json.loads(line) for line in asked.splitlines()]
    assert len({question["id"] for question in questions}) == 40
    answers = [
        {"id": question["id"], "text": f" {right(question['messages'][0]['content'])}\n", "finish": "stop"}
        for question in questions
    ]
    answers[0]["text"] = "wrong"
    written = "".join(json.dumps(answer) + "\n" for answer in answers[:-1])  # and one is missing
    assert json.loads(exam("score", "ab12", 40, written)) == {"n": 40, "correct": 38}
    assert json.loads(exam("score", "ab12", 40)) == {"n": 40, "correct": 0}
