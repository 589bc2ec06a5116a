"""`python -m palestra_kit.clean`: drops pool rows that repeat questions of the dev set, and rows whose answer is wrong.

How a leak is found: a question is cut into runs of 8 words (the whole question when it is shorter). Runs that many pool rows share are
the wording of a family, not a leak, and don't count. A row that holds 90 % of a question's remaining runs is dropped; from 50 % on it
is listed for you to look at. Case and punctuation don't matter. A question told in other words is not found.
Answers are worked out afresh where the row's family has a rule and the prompt is in a known wording; a row is dropped when they differ.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from palestra_kit.errors import exit_with
from palestra_kit.rows import Row, read_rows, write_rows
from palestra_kit.tasks import check, solve
from palestra_kit.tasks.pool import plain

GRAM = 8
COMMON_SHARE = 0.005
DROP_FROM, LIST_FROM = 0.9, 0.5
# The figure that the field usually quotes: any shared run of 13 words. Printed for comparison, never acted upon.
CUSTOMARY_GRAM = 13


class Overlap(NamedTuple):
    """A pool row and the question it covers most."""

    row: int
    question: int
    share: float


class Cleaned(NamedTuple):
    kept: list[Row]
    leaked: list[Overlap]
    listed: list[Overlap]
    wrong: list[int]
    unchecked: int
    unsearchable: list[int]


def find_overlaps(pool: Sequence[str], questions: Sequence[str]) -> tuple[list[Overlap], list[int]]:
    """For each pool text the question it covers most, from LIST_FROM up; and the questions that consist of common wording only."""
    words = [plain(question).split() for question in questions]
    sizes = sorted({min(GRAM, len(one)) for one in words if one})
    texts = [plain(text).split() for text in pool]
    wanted = {gram for one in words for gram in _grams(one, min(GRAM, len(one)))}
    rows_with: Counter[str] = Counter()
    rows_grams: list[set[str]] = []
    for text in texts:
        found = {gram for size in sizes for gram in _grams(text, size)} & wanted
        rows_with.update(found)
        rows_grams.append(found)
    common = {gram for gram, count in rows_with.items() if count > max(3, COMMON_SHARE * len(pool))}
    telling = [set(_grams(one, min(GRAM, len(one)))) - common for one in words]
    where: defaultdict[str, list[int]] = defaultdict(list)
    for number, grams in enumerate(telling):
        for gram in grams:
            where[gram].append(number)
    overlaps = []
    for row, grams in enumerate(rows_grams):
        hits = Counter(number for gram in grams - common for number in where[gram])
        if hits:
            question, share = max(
                ((number, hits[number] / len(telling[number])) for number in sorted(hits)),
                key=lambda one: one[1],
            )
            if share >= LIST_FROM:
                overlaps.append(Overlap(row, question, share))
    return overlaps, [number for number, grams in enumerate(telling) if not grams]


def clean(pool: Sequence[Row], dev: Sequence[Row]) -> Cleaned:
    overlaps, unsearchable = find_overlaps([row.prompt for row in pool], [row.prompt for row in dev])
    leaked = [one for one in overlaps if one.share >= DROP_FROM]
    dropped = {one.row for one in leaked}
    kept, wrong, unchecked = [], [], 0
    for number, row in enumerate(pool):
        if number in dropped:
            continue
        right = solve(row.family, row.prompt)
        if right is None:
            unchecked += 1
        elif not check(right, row.answer).strict:
            wrong.append(number)
            continue
        kept.append(row)
    return Cleaned(
        kept, leaked, [one for one in overlaps if one.share < DROP_FROM], wrong, unchecked, unsearchable
    )


def _grams(words: Sequence[str], size: int) -> list[str]:
    return [" ".join(words[at : at + size]) for at in range(len(words) - size + 1)] if size else []


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m palestra_kit.clean",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pool", type=Path, required=True, metavar="FILE")
    parser.add_argument("--dev", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--show", type=int, default=3, metavar="N", help="print up to N examples of each kind (default 3)"
    )
    given = parser.parse_args()
    pool, dev = read_rows(given.pool), read_rows(given.dev)
    done = clean(pool, dev)
    write_rows(given.out, (row.raw for row in done.kept))

    for one in done.leaked[: given.show]:
        print(
            f"leaked, line {one.row + 1}: {pool[one.row].prompt!r} covers {one.share:.0%} of {dev[one.question].prompt!r}"
        )
    for one in done.listed[: given.show]:
        print(
            f"look at, line {one.row + 1}: {pool[one.row].prompt!r} covers {one.share:.0%} of {dev[one.question].prompt!r}"
        )
    for number in done.wrong[: given.show]:
        row = pool[number]
        print(
            f"wrong, line {number + 1}: {row.prompt!r} has {row.answer!r}, right is {solve(row.family, row.prompt)!r}"
        )
    thirteen = {gram for row in dev for gram in _grams(plain(row.prompt).split(), CUSTOMARY_GRAM)}
    shared = sum(not thirteen.isdisjoint(_grams(plain(row.prompt).split(), CUSTOMARY_GRAM)) for row in pool)
    print(
        f"rows that share any run of {CUSTOMARY_GRAM} words with the dev set: {shared:,} (the field's usual figure, for comparison)"
    )
    if done.unsearchable:
        print(f"dev questions made of common wording only, not searchable: {len(done.unsearchable):,}")
    print(
        f"kept rows whose answer could not be checked: {done.unchecked:,}; kept rows to look at: {len(done.listed):,}"
    )
    print(
        f"rows: {len(pool):,} in = {len(done.kept):,} kept + {len(done.leaked):,} leaked + {len(done.wrong):,} wrong answers"
    )


if __name__ == "__main__":
    exit_with(main)
