"""Counting answers: stopped, empty, looping, differing (S21, S41, F30, F32)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.ports import Answer
from palestra.serving.probes import Judged, is_looping, judge_probes


def answers(*texts: str, finish: str = "stop") -> list[Answer]:
    return [Answer(f"q{number}", text, finish) for number, text in enumerate(texts)]


def test_each_kind_of_answer_is_counted_once_where_it_belongs() -> None:
    """S41: one empty, one going round in circles, one that ran into the limit, one that never came."""
    given_answers = [
        *answers("abc", "", " \n", "the cat " * 20),
        Answer("q4", "cut off in the", "length"),
        Answer("q5", "", "error"),
    ]
    assert judge_probes(given_answers) == Judged(probes=6, stopped=4, empty=2, looping=1, failed=1)


def test_a_model_that_never_stops_shows_in_the_count() -> None:
    """F32: 0 of 8 probes stopped."""
    assert judge_probes(answers(*"abcdefgh", finish="length")).stopped == 0


def test_answers_like_the_bases_are_counted_as_not_differing() -> None:
    """F30: identical to the base on all probes that both answered."""
    base = answers("a", "b", "c")
    assert judge_probes(answers("a", "b", "c"), base).differing == 0
    assert judge_probes(answers("a", "x", "y"), base).differing == 2
    assert judge_probes(answers("a", "x", "y"), base[:2]).differing == 1
    assert judge_probes(answers("a"), None).differing is None
    assert judge_probes(answers("", finish="error"), base).differing == 0


@pytest.mark.parametrize(
    "text",
    [
        "a" * 24,
        "ab" * 30,
        "Sure! " + "I can help you with that. " * 6,
        "x" * 50 + "\n",
        "well, " + "no, no, " * 10,
        "hello world, this is odd: " + "\n- item" * 12,
        " ".join(f"{n}. the same line once more and again" for n in range(40)),
    ],
)
def test_loops_are_seen(text: str) -> None:
    assert is_looping(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "aaa",
        "abcabcabc",
        "[abc]",
        "1000000000000",
        "The quick brown fox jumps over the lazy dog, and then it sleeps.",
        "one two three four five six seven eight nine ten " * 2,
        "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\n",
        " ".join(f"word{n} and" for n in range(200)),
    ],
)
def test_plain_answers_are_no_loops(text: str) -> None:
    assert not is_looping(text)


@given(st.text("abcdef ,.\U0001f600\n", min_size=8, max_size=40), st.integers(4, 30), st.text(max_size=10))
def test_any_piece_said_often_enough_is_a_loop(piece: str, times: int, before: str) -> None:
    assert is_looping(before.strip() + piece.strip().rjust(8, "x") * times)


@given(st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=200))
def test_words_that_never_come_again_are_no_loop(numbers: list[int]) -> None:
    assert not is_looping(" ".join(f"n{number:06}." for number in numbers[:3]))
    assert not is_looping(" ".join(f"{number:b} is {number:o}" for number in numbers))
