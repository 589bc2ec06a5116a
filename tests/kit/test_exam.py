"""The hidden exam: the same seed gives the same bytes, and no set of answers can confuse the count."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import pytest
from tests.kit.running import EXAM, exam

from palestra_kit.tasks import TIERS, solve

SEED = "0123456789abcdef"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pocket_exam", EXAM)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["pocket_exam"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def answers_of(module: ModuleType, n: int, tier: str = "tiny") -> list[dict[str, Any]]:
    """A perfect paper."""
    made = module.make_questions(SEED, n, tier)
    return [{"id": one.id, "text": one.answer, "finish": "stop"} for one in made]


def lines(answers: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(answer) + "\n" for answer in answers)


@pytest.mark.parametrize("tier", ["tiny", "pocket"])
def test_questions_are_the_same_bytes_for_the_same_seed_and_hold_no_answer(tier: str) -> None:
    first = exam("questions", "--seed", SEED, "--n", 60, "--tier", tier).stdout
    assert first == exam("questions", "--seed", SEED, "--n", 60, "--tier", tier).stdout
    assert first != exam("questions", "--seed", SEED[::-1], "--n", 60, "--tier", tier).stdout
    questions = [json.loads(line) for line in first.splitlines()]
    assert len({question["id"] for question in questions}) == 60
    for question in questions:
        assert set(question) == {"id", "messages", "max_tokens"}
        assert [message["role"] for message in question["messages"]] == ["user"]


@pytest.mark.parametrize("tier", ["tiny", "pocket"])
def test_half_of_the_wordings_are_the_exams_own(module: ModuleType, tier: str) -> None:
    questions = module.make_questions(SEED, 1_000, tier)
    own = [one for one in questions if solve(one.family, one.prompt) is None]
    assert 400 < len(own) < 600
    assert {one.family for one in own} == {one.name for one in TIERS[tier]}


@pytest.mark.parametrize("tier", ["tiny", "pocket"])
def test_a_perfect_paper_gets_all_and_an_empty_one_nothing(module: ModuleType, tier: str) -> None:
    arguments = ("score", "--seed", SEED, "--n", 50, "--tier", tier)
    full = json.loads(exam(*arguments, answers=lines(answers_of(module, 50, tier))).stdout)
    assert (full["n"], full["correct"]) == (50, 50)
    assert sum(one["n"] for one in full["by"].values()) == 50
    assert all(one["n"] == one["correct"] for one in full["by"].values())
    empty = json.loads(exam(*arguments, answers="").stdout)
    assert (empty["n"], empty["correct"]) == (50, 0)


def test_missing_and_wrong_answers_count_as_wrong_in_any_order(module: ModuleType) -> None:
    answers = answers_of(module, 20)[5:]
    answers[0]["text"] += "!"
    for paper in (answers, answers[::-1]):
        score = json.loads(exam("score", "--seed", SEED, "--n", 20, answers=lines(paper)).stdout)
        assert (score["n"], score["correct"]) == (20, 14)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"id": "q00001", "text": NaN, "finish": "stop"}', "line 2 is not JSON: NaN is not allowed"),
        ('{"id": "q00001", "text": "a", "finish": "stop"}', "line 2: id 'q00001' has an answer already"),
        (
            '{"id": "q99999", "text": "a", "finish": "stop"}',
            "line 2: id 'q99999' is no question of this exam",
        ),
        ('{"id": 1, "text": "a", "finish": "stop"}', "line 2: id 1 is no question of this exam"),
        ('{"id": "q00002", "text": null, "finish": "stop"}', "line 2: text is None; it must be a text"),
        ('{"id": "q00002", "text": "a", "finish": "bored"}', "line 2: finish is 'bored'"),
        ('{"id": "q00002", "text": "a"}', "exactly the fields id, text and finish"),
        ("nonsense", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is not JSON"),
    ],
)
def test_a_paper_that_cannot_be_is_refused_with_exit_2(line: str, sentence: str) -> None:
    good = '{"id": "q00001", "text": "a", "finish": "stop"}\n'
    done = exam("score", "--seed", SEED, "--n", 20, answers=good + line + "\n", code=2)
    assert sentence in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", "XYZ", "--n", "5"), "--seed must be 8 to 128 lower-case hexadecimal digits"),
        (("--seed", SEED, "--n", "0"), "--n is 0; it must be from 1 to 100000"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in exam("questions", *arguments, code=2).stderr
