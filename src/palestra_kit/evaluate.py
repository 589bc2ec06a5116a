"""`python -m palestra_kit.evaluate`: measures a model on questions with known answers, in this process. For your own tests, not the exam.

Strict counts answers that are exactly right, lenient those that hold the right answer somewhere. The interval is Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palestra_kit.chat import Chat
from palestra_kit.errors import KitError, exit_with
from palestra_kit.rows import Message, Row, read_rows
from palestra_kit.scores import wilson
from palestra_kit.tasks import check


class Tally(NamedTuple):
    n: int = 0
    strict: int = 0
    lenient: int = 0


def measure(
    model: Any, chat: Chat, rows: Sequence[Row], max_tokens: int, system: str, batch: int
) -> dict[str, Tally]:
    """Greedy answers, counted by family."""
    from palestra_kit.generate import Ask, Sampling, answer_batch

    before = [Message("system", system)] if system else []
    asks = []
    for row in rows:
        ids = chat.encode([*before, *row.messages[:-1]], answer_next=True).ids
        if len(ids) >= chat.context:
            raise KitError(f"a question has {len(ids)} tokens; the model's context is {chat.context}")
        asks.append(Ask(ids, max_tokens))
    tallies: dict[str, Tally] = defaultdict(Tally)
    for start in range(0, len(asks), batch):
        answers = answer_batch(model, chat, asks[start : start + batch], Sampling())
        for row, given in zip(rows[start : start + batch], answers, strict=True):
            strict, lenient = check(row.answer, given.text)
            old = tallies[row.family]
            tallies[row.family] = Tally(old.n + 1, old.strict + strict, old.lenient + lenient)
    return dict(tallies)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m palestra_kit.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--base", type=Path, required=True, metavar="DIR")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--adapter", type=Path, metavar="DIR", help="a LoRA adapter on the base")
    what.add_argument("--model", type=Path, metavar="DIR", help="a full model of the base's shape")
    add(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSONL of questions with answers, such as dev.jsonl",
    )
    add("--limit", type=int, metavar="N", help="the first N questions only")
    add("--max-tokens", type=int, default=40, help="the longest answer")
    add("--system", default="", metavar="TEXT", help="a system prompt to put first")
    add("--batch", type=int, default=64)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--json", action="store_true", help="one JSON object instead of the table")
    given = parser.parse_args()
    chat = Chat.load(given.base)
    rows = [row for row in read_rows(given.data) if row.answer][: given.limit]
    if not rows:
        raise KitError(f"{given.data} holds no question with an answer")

    from palestra_kit.adapters import Loaded
    from palestra_kit.weights import load_base, pick_device

    started = time.monotonic()
    loaded = Loaded(load_base(given.base, pick_device(given.device), given.model), "base")
    if given.adapter:
        loaded.add("adapter", given.adapter, max_rank=1024)
    with loaded.speaking(loaded.names[-1]) as model:
        by = measure(model, chat, rows, given.max_tokens, given.system, given.batch)
    total = Tally(*(sum(column) for column in zip(*by.values(), strict=True)))
    if given.json:
        print(json.dumps({"by": {name: by[name]._asdict() for name in sorted(by)}, **total._asdict()}))
        return
    for name in sorted(by):
        print(_line(name or "(no family)", by[name]))
    print(_line("all", total))
    print(f"{total.n} questions in {time.monotonic() - started:.1f} s")


def _line(name: str, tally: Tally) -> str:
    low, high = wilson(tally.strict, tally.n)
    return (
        f"{name:12} strict {tally.strict / tally.n:.3f} [{low:.3f}, {high:.3f}]  lenient {tally.lenient / tally.n:.3f}  "
        f"n {tally.n}"
    )


if __name__ == "__main__":
    exit_with(main)
