"""The task families: what they ask, what they take for right, and that a prompt tells its own answer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra_kit.errors import KitError
from palestra_kit.tasks import TIERS, Family, check, families, make, solve

ALL = [one for tier in TIERS.values() for one in tier]


def test_names_differ_over_all_tiers() -> None:
    assert len({one.name for one in ALL}) == len(ALL)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_wording_of_a_family_can_be_solved_again(one: Family) -> None:
    rng = Random(5)
    for template in one.templates + one.held_back:
        for _ in range(50):
            item = one.make(rng, [template])
            assert solve(one.name, item.prompt) == item.answer
            assert solve(one.name, item.prompt.upper().lower()) is not None


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_right_answer_is_right_and_another_one_is_wrong(one: Family) -> None:
    rng = Random(6)
    for _ in range(50):
        item, other = make(one, rng), make(one, rng)
        assert check(item.answer, item.answer) == (True, True)
        assert check(item.answer, f"  {item.answer}\n") == (True, True)
        assert check(item.answer, f"The answer is {item.answer} I think") == (False, True)
        if other.answer != item.answer:
            assert not check(item.answer, other.answer).strict


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_the_same_seed_gives_the_same_questions(one: Family) -> None:
    assert [make(one, Random(9)) for _ in range(3)] == [make(one, Random(9)) for _ in range(3)]


def test_a_prompt_in_unknown_words_is_not_solved() -> None:
    assert solve("wrap", "could you wrap abc for me") is None
    assert solve("nothing", "wrap abc") is None
    with pytest.raises(KitError, match="tier 'huge' does not exist; there are: tiny, pocket"):
        families("huge")


@pytest.mark.parametrize(
    ("answer", "text", "strict", "lenient"),
    [
        ('{"a": "x", "n": 1}', '{"n":1,"a":"x"}', True, True),
        ('{"a": "x", "n": 1}', 'Here: {"n": 1, "a": "x"} done', False, True),
        ('{"a": "x", "n": 1}', '{"a": "x", "n": "1"}', False, False),
        ('{"a": "x", "n": 1}', '{"a": "x", "n": true}', False, False),
        ('{"a": "x", "n": 1}', '{"a": "x", "n": 1.0}', False, False),
        ('{"a": "x", "n": 1}', '{"a": "x", "n": 2, "n": 1}', False, False),
        ('{"a": "x", "n": 1}', '{"a": "x", "n": NaN}', False, False),
        ('{"a": "x", "n": 1}', "{" * 5000, False, False),
        ("12", "112", False, False),
        ("12", "12.", False, True),
        ("ABC", "abc", False, False),
        ("[cat]", "[cat]", True, True),
        ("[cat]", "[ cat ]", False, False),
        ("a, b", "a,\n b", True, True),
    ],
)
def test_strict_and_lenient(answer: str, text: str, strict: bool, lenient: bool) -> None:
    assert check(answer, text) == (strict, lenient)


@given(st.sampled_from(["12", "ABC", '{"a": "x", "n": 1}', "[cat]"]), st.text())
def test_any_text_can_be_checked(answer: str, text: str) -> None:
    strict, lenient = check(answer, text)
    assert lenient or not strict
