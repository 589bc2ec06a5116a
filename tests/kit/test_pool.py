"""The training pool with its planted flaws, and the cleaner that has to find them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.kit.running import kit

from palestra_kit.clean import clean, find_overlaps
from palestra_kit.errors import KitError
from palestra_kit.rows import read_rows, write_rows
from palestra_kit.tasks import families, solve
from palestra_kit.tasks.pool import plain, write_pool


@pytest.mark.parametrize("tier", ["tiny", "pocket"])
def test_the_cleaner_finds_exactly_what_was_planted(tier: str, tmp_path: Path) -> None:
    """60 leaked and 150 wrong rows of 3,000 are planted; the templated rest must not be taken for leaks."""
    for seed in range(3):
        write_pool(tier, families(tier), seed, tmp_path)
        pool, dev = read_rows(tmp_path / "pool.jsonl"), read_rows(tmp_path / "dev.jsonl")
        done = clean(pool, dev)
        assert (len(pool), len(dev)) == (3_000, 120)
        assert (len(done.leaked), len(done.wrong), len(done.kept)) == (60, 150, 2_790)
        assert {plain(row.prompt) for row in dev}.isdisjoint(plain(row.prompt) for row in done.kept)
        assert all(solve(row.family, row.prompt) == row.answer for row in done.kept)


def test_same_seed_same_bytes_and_the_card_tells_that_but_not_where(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_pool("tiny", families("tiny"), 7, tmp_path / name)
    for file in ("pool.jsonl", "dev.jsonl", "README.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    card = (tmp_path / "one" / "README.md").read_text()
    assert "Some rows repeat questions of the dev set" in card
    assert "Some answers are wrong" in card
    write_pool("tiny", families("tiny"), 8, tmp_path / "three")
    assert (tmp_path / "three" / "pool.jsonl").read_bytes() != (tmp_path / "one" / "pool.jsonl").read_bytes()


def test_leaks_come_in_three_disguises_and_with_held_back_wordings(tmp_path: Path) -> None:
    write_pool("tiny", families("tiny"), 1, tmp_path)
    dev = {row.prompt for row in read_rows(tmp_path / "dev.jsonl")}
    pool = [row.prompt for row in read_rows(tmp_path / "pool.jsonl")]
    verbatim = [prompt for prompt in pool if prompt in dev]
    retouched = [
        prompt for prompt in pool if prompt not in dev and plain(prompt) in {plain(one) for one in dev}
    ]
    embedded = [prompt for prompt in pool if prompt not in dev and any(one in prompt for one in dev)]
    assert (len(verbatim), len(retouched), len(embedded)) == (20, 20, 20)
    assert any(prompt.startswith("please") and ":" in prompt for prompt in verbatim)


def test_coverage_is_of_the_question_not_of_the_row() -> None:
    """A leak inside a long text counts as a whole one, and half a question as half of one."""
    rng = Random(2)
    words = [f"w{number}" for number in range(5_000)]
    question = " ".join(rng.sample(words, 24))
    half = " ".join(question.split()[:16])
    noise = [" ".join(rng.sample(words, 60)) for _ in range(400)]
    overlaps, unsearchable = find_overlaps(
        [*noise, f"{noise[0]} {question.upper()}! {noise[1]}", half], [question]
    )
    assert [(one.row, one.question) for one in overlaps] == [(400, 0), (401, 0)]
    assert overlaps[0].share == 1.0
    assert overlaps[1].share == pytest.approx(9 / 17)
    assert unsearchable == []


def test_a_question_of_common_wording_only_is_said_to_be_unsearchable() -> None:
    overlaps, unsearchable = find_overlaps(["say the usual thing"] * 100, ["say the usual thing"])
    assert overlaps == []
    assert unsearchable == [0]


def test_the_command_accounts_for_every_row(tmp_path: Path) -> None:
    kit("tasks", "pool", "--tier", "tiny", "--out", tmp_path)
    done = kit(
        "clean",
        "--pool",
        tmp_path / "pool.jsonl",
        "--dev",
        tmp_path / "dev.jsonl",
        "--out",
        tmp_path / "c.jsonl",
    )
    assert "rows: 3,000 in = 2,790 kept + 60 leaked + 150 wrong answers" in done.stdout
    assert len(read_rows(tmp_path / "c.jsonl")) == 2_790


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"prompt": "x"}', "line 2: answer is None; it must be a text"),
        ('{"prompt": 3, "answer": "y"}', "line 2: prompt is 3; it must be a text"),
        ("[1]", r"line 2: '\[1\]' is not an object"),
        ("{", "line 2: not JSON"),
        ('{"messages": [{"role": "boss", "content": "x"}]}', r"messages\[0\].role is 'boss'"),
        ('{"messages": [{"role": "user", "content": ["x"]}]}', r"messages\[0\].content is list"),
    ],
)
def test_a_bad_row_is_named_with_line_field_and_value(line: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "answer": "b"}\n' + line + "\n")
    with pytest.raises(KitError, match=sentence):
        read_rows(tmp_path / "rows.jsonl")


def test_rows_keep_line_separators_inside_their_texts(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [{"prompt": "a\u2028b\x85c", "answer": "d"}])
    assert read_rows(tmp_path / "rows.jsonl")[0].prompt == "a\u2028b\x85c"
