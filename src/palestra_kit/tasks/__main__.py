"""`python -m palestra_kit.tasks pool`: writes a competition's training pool, dev set and data card into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from palestra_kit.errors import exit_with
from palestra_kit.tasks import TIERS, families
from palestra_kit.tasks.pool import write_pool


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m palestra_kit.tasks", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    pool = verbs.add_parser("pool", help="write pool.jsonl, dev.jsonl and README.md")
    pool.add_argument("--tier", choices=list(TIERS), required=True)
    pool.add_argument("--out", type=Path, required=True, metavar="DIR")
    pool.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows, dev = write_pool(given.tier, families(given.tier), given.seed, given.out)
    print(f"{given.out}: pool.jsonl {rows:,} rows, dev.jsonl {dev} questions, README.md")


if __name__ == "__main__":
    exit_with(main)
