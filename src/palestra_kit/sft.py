"""`python -m palestra_kit.sft`: supervised fine-tuning of a base model on rows of questions and answers, LoRA or full parameters.

Progress is a line on stdout that the arena reads: `PALESTRA progress step=12 of=100 loss=0.5312`.
The finished checkpoint appears at OUT in one step and is sealed. With --save-every K there is also one at OUT.step-K, OUT.step-2K, ...
and, until the end, the state for --resume in OUT.resume. All of it is safetensors and JSON.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from pathlib import Path
from random import Random
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from palestra_kit.chat import Chat, Encoded
from palestra_kit.errors import KitError, exit_with
from palestra_kit.folders import new_folder, refuse_taken
from palestra_kit.rows import Row, read_rows
from palestra_kit.seal import digest_of, seal

if TYPE_CHECKING:
    from palestra_kit.training import Run

PREEMPTED = 143


class Plan(NamedTuple):
    """What decides the result. A resumed run must have the same plan."""

    base: str
    data: str
    method: str
    steps: int
    batch: int
    lr: float
    rank: int
    seed: int
    max_tokens: int


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m palestra_kit.sft",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--base", type=Path, required=True, metavar="DIR", help="the base model's folder")
    add(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSONL of {"prompt", "answer"} or {"messages": [...]}',
    )
    add(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="where the finished checkpoint goes; must not hold anything yet",
    )
    add("--method", choices=("lora", "full"), default="lora")
    add("--steps", type=_positive, default=100)
    add("--batch", type=_positive, help="rows a step (default: 32 for small models, 8 for others)")
    add(
        "--lr",
        type=float,
        help="peak learning rate (default: lora 5e-3 for small models, 1e-3 for others; full 2e-3, 5e-5)",
    )
    add("--rank", type=_positive, default=16, help="rank of the LoRA matrices")
    add("--seed", type=int, default=0)
    add("--max-tokens", type=_positive, default=256, help="longer rows are left out and counted")
    add(
        "--save-every",
        type=_positive,
        metavar="K",
        help="also save a checkpoint and the resume state every K steps",
    )
    add("--resume", action="store_true", help="go on from OUT.resume if it is there")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args()


def main() -> None:
    given = parse()
    refuse_taken(given.out)
    if given.lr is not None and not (math.isfinite(given.lr) and given.lr > 0):
        raise KitError(f"--lr is {given.lr}; it must be a number above 0, for example 1e-3")
    chat = Chat.load(given.base)
    encoded = encode_rows(chat, read_rows(given.data), min(given.max_tokens, chat.context))

    from palestra_kit import training
    from palestra_kit.weights import load_base, pick_device

    model = load_base(given.base, pick_device(given.device))
    usual = training.defaults(model, given.method)
    plan = Plan(
        base=digest_of(given.base),
        data=digest_of(given.data),
        method=given.method,
        steps=given.steps,
        batch=given.batch or usual.batch,
        lr=given.lr or usual.lr,
        rank=given.rank if given.method == "lora" else 0,
        seed=given.seed,
        max_tokens=given.max_tokens,
    )
    run = training.Run(training.prepare(model, plan.method, plan.rank, plan.seed), plan.lr, plan.steps)
    resume = given.out.with_name(f"{given.out.name}.resume")
    done = training.load_state(run, resume, plan._asdict()) if given.resume else 0
    if done:
        print(f"going on after step {done}", flush=True)
    for earlier in given.out.parent.glob(f"{given.out.name}.step-*"):
        if not done:
            raise KitError(f"{earlier} is there from an earlier run; remove it, or go on with --resume")
    train(run, encoded, chat, given, plan, done + 1, resume)
    digest = save(run.model, chat, given, plan, plan.steps, given.out)
    training.drop_state(resume)
    print(f"{given.out}: {digest}")


def train(
    run: Run,
    encoded: list[Encoded],
    chat: Chat,
    given: argparse.Namespace,
    plan: Plan,
    first: int,
    resume: Path,
) -> None:
    """All steps from `first` on, with what is kept in between. With --save-every, SIGTERM ends it after the step under way."""
    from palestra_kit import training

    stopping = _notice_sigterm() if given.save_every else []
    for step in range(first, plan.steps + 1):
        loss = run.step(pick_rows(encoded, plan, step), chat.pad_id)
        if not math.isfinite(loss):
            raise KitError(f"the loss became {loss} at step {step}; a lower --lr than {plan.lr:g} may help")
        print(f"PALESTRA progress step={step} of={plan.steps} loss={loss:.4f}", flush=True)
        if step == plan.steps:
            return
        due = given.save_every is not None and step % given.save_every == 0
        if due:
            between = given.out.with_name(f"{given.out.name}.step-{step}")
            # One from before a kill is the same, as every step depends on the plan alone.
            if not between.exists():
                save(run.model, chat, given, plan, step, between)
        if due or stopping:
            training.save_state(run, resume, step, plan._asdict())
        if stopping:
            print(f"stopped by SIGTERM after step {step}", file=sys.stderr)
            sys.exit(PREEMPTED)


def encode_rows(chat: Chat, rows: list[Row], most: int) -> list[Encoded]:
    """Rows as ids with the mask of what is trained. Prints one row so that a wrong mask is seen before hours are spent on it."""
    encoded = [chat.encode(row.messages, answer_next=False) for row in rows]
    fitting = [one for one in encoded if len(one.ids) <= most]
    useful = [one for one in fitting if any(one.trained[1:])]
    if not useful:
        raise KitError(
            f"nothing would be trained: of {len(rows):,} rows {len(rows) - len(fitting):,} are longer than {most} tokens "
            f"and {len(fitting):,} have no assistant's answer"
        )
    too_long, silent = len(rows) - len(fitting), len(fitting) - len(useful)
    print(
        f"{len(useful):,} of {len(rows):,} rows are used ({too_long:,} too long, {silent:,} without an answer)"
    )
    print(f"the model reads this row and learns what is in [[ ]]: {chat.show(useful[0])!r}", flush=True)
    return useful


def pick_rows(encoded: list[Encoded], plan: Plan, step: int) -> list[Encoded]:
    """The rows of a step depend on seed and step alone: every epoch is shuffled afresh, and a resumed run sees the same rows."""
    rows = []
    for place in range((step - 1) * plan.batch, step * plan.batch):
        epoch, at = divmod(place, len(encoded))
        rows.append(encoded[_order(plan.seed, epoch, len(encoded))[at]])
    return rows


_ORDERS: dict[tuple[int, int, int], list[int]] = {}


def _order(seed: int, epoch: int, count: int) -> list[int]:
    key = (seed, epoch, count)
    if key not in _ORDERS:
        _ORDERS.clear()
        _ORDERS[key] = Random(f"{seed} {epoch}").sample(range(count), count)
    return _ORDERS[key]


def save(model: Any, chat: Chat, given: argparse.Namespace, plan: Plan, step: int, out: Path) -> str:
    """Write and seal one checkpoint; returns its digest."""
    from palestra_kit import training

    with new_folder(out) as folder:
        if plan.method == "lora":
            training.save_adapter(model, chat.name, folder)
        else:
            training.save_full(model, given.base, folder)
        return seal(folder, parents=[], step=step)


def _notice_sigterm() -> list[int]:
    """A list that is empty until SIGTERM comes, so that the step under way can be finished and kept."""
    noticed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noticed.append(number)

    signal.signal(signal.SIGTERM, note)
    return noticed


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be 1 or more")
    return value


if __name__ == "__main__":
    exit_with(main)
