"""Makes a training pool with planted flaws and a public dev set, both from one seed; writes pool.jsonl, dev.jsonl and a data card."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from palestra_kit.rows import write_rows
from palestra_kit.tasks.families import Family, Item

POOL_ROWS = 3_000
DEV_ROWS = 120
HELD_BACK_SHARE_OF_DEV = 0.25
LEAKED_SHARE = 0.02
WRONG_SHARE = 0.05

Row = dict[str, str]

CHATTER = (
    "Hello! I have a question. {prompt} Thank you very much.",
    "Someone asked me this today: {prompt} What do you think?",
    "hey, {prompt} thanks",
    "Quick one for you. {prompt}",
)

CARD = """# Data card

Tier: {tier}. Made by `python -m palestra_kit.tasks pool --tier {tier} --seed {seed}`.

- `pool.jsonl`: {pool:,} rows to train on, one JSON object a line: `prompt`, `answer`, `family`.
- `dev.jsonl`: {dev} questions of the same shape to measure yourself with. They are public and not the hidden exam.

Known flaws, as in any pool gathered from many places:

- Some rows repeat questions of the dev set, not always word for word.
- Some answers are wrong.

Which rows these are is not written down anywhere. `python -m palestra_kit.clean` finds most of them. A model trained on dev
questions will score too high on your own test, and you won't notice.
"""


def make_dev(families: tuple[Family, ...], rng: Random) -> list[Row]:
    """The public dev set: families in turn, a share of it in wordings that the pool does not use."""
    rows: list[Row] = []
    seen: set[str] = set()
    while len(rows) < DEV_ROWS:
        one = families[len(rows) % len(families)]
        item = one.make(rng, one.held_back if rng.random() < HELD_BACK_SHARE_OF_DEV else one.templates)
        if plain(item.prompt) not in seen:
            seen.add(plain(item.prompt))
            rows.append(_row(item, one.name))
    return rows


def make_pool(families: tuple[Family, ...], dev: list[Row], rng: Random) -> list[Row]:
    """Rows with a wrong answer, clean rows, then leaked dev questions in three disguises; shuffled. Other rows may repeat each other."""
    leaked, wrong = round(POOL_ROWS * LEAKED_SHARE), round(POOL_ROWS * WRONG_SHARE)
    public = [f" {plain(row['prompt'])} " for row in dev]
    rows: list[Row] = []
    while len(rows) < POOL_ROWS - leaked:
        one = families[len(rows) % len(families)]
        item = one.make(rng)
        # "please add 3 4" would give away "add 3 4", and leaks are planted below, not by accident.
        if any(one in f" {plain(item.prompt)} " for one in public):
            continue
        rows.append(_row(_spoil(one, item, rng) if len(rows) < wrong else item, one.name))
    for number, row in enumerate(rng.sample(dev, leaked)):
        rows.append({**row, "prompt": _disguise(row["prompt"], number % 3, rng)})
    rng.shuffle(rows)
    return rows


def write_pool(tier: str, families: tuple[Family, ...], seed: int, out: Path) -> tuple[int, int]:
    """Write the three files into `out`; the same tier and seed give the same bytes. Returns the rows of pool and dev."""
    rng = Random(f"palestra pool {tier} {seed}")
    dev = make_dev(families, rng)
    pool = make_pool(families, dev, rng)
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / "pool.jsonl", pool)
    write_rows(out / "dev.jsonl", dev)
    (out / "README.md").write_text(
        CARD.format(tier=tier, seed=seed, pool=len(pool), dev=len(dev)), encoding="utf-8"
    )
    return len(pool), len(dev)


def plain(text: str) -> str:
    """Letters and digits only, in lower case: two prompts that differ in nothing else are the same question."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _row(item: Item, family: str) -> Row:
    return {"prompt": item.prompt, "answer": item.answer, "family": family}


def _spoil(one: Family, item: Item, rng: Random) -> Item:
    """The same question with the answer to another one of its family."""
    while True:
        answer = one.make(rng).answer
        if answer != item.answer:
            return Item(item.prompt, answer)


def _disguise(prompt: str, kind: int, rng: Random) -> str:
    if kind == 0:
        return prompt
    if kind == 1:
        return (
            prompt[0].swapcase()
            + re.sub(r"[:?.]", lambda _: rng.choice((" -", " ...", "!")), prompt[1:])
            + "!"
        )
    return rng.choice(CHATTER).format(prompt=prompt)
