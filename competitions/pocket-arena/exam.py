"""The hidden exam of the pocket arena: a seed in, questions out; answers in, a score out. Runs on the organiser's side only.

    exam.py questions --seed HEX --n N [--tier tiny|pocket]     prints N lines {"id", "messages", "max_tokens"}
    exam.py score     --seed HEX --n N [--tier tiny|pocket]     reads lines {"id", "text", "finish"}, prints {"n", "correct", "by"}

The same seed gives the same bytes, so a score can be checked again from the kept answers. An answer that is missing counts as wrong;
input that cannot be what the arena kept (unknown or doubled ids, other types) is refused with exit 2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from random import Random
from typing import NamedTuple, NoReturn

try:
    from palestra_kit.tasks import TIERS, Family, check
except ModuleNotFoundError:
    sys.exit("error: exam.py needs palestra_kit; run it with the Python that Palestra is installed in")

# Wordings of the exam alone. The others are those of the public pool: half of an exam rewards what was practised, half of it what was
# understood.
OWN_WORDINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "tiny": {
        "say": ("say, {word}", "please say, {word}"),
        "caps": ("caps, {word}", "please caps, {word}"),
        "last": ("last, {word}", "please last, {word}"),
        "wrap": ("wrap, {word}", "please wrap, {word}"),
        "back": ("back, {word}", "please back, {word}"),
        "add": ("add, {a} {b}", "please add, {a} {b}"),
    },
    "pocket": {
        "sum": ("How much is {a} plus {b}? Answer with the number alone.", "{a} + {b} = ?"),
        "rest": ("Of {a} {thing}, {b} get lost. How many are there still? Answer with the number alone.",),
        "upper": ("Write this line again, all in capitals: {words}", "Capitals only, please: {words}"),
        "sort": ("Arrange alphabetically: {list}", "Which order would a dictionary give these? {list}"),
        "reverse": ("Turn this list around: {list}", "Say this list from back to front: {list}"),
        "json": (
            'One JSON object with two keys: "{key}" holds the text "{word}" and "{key2}" holds the number {a}.',
        ),
        "count": ("This line has how many words? {words}", "Answer with the number of words in: {words}"),
        "pick": ("Take the {nth} word from this: {words}", "{words} - which word is {nth}?"),
        "bracket": ("Set the word {word} between square brackets.", "Square brackets around {word}, please."),
        "ending": ("The word {word} ends in which letter?", "Name the final letter of {word}."),
    },
}
OWN_SHARE = 0.5
MOST_QUESTIONS = 100_000
FINISHES = ("stop", "length", "error")


class Question(NamedTuple):
    id: str
    family: str
    prompt: str
    answer: str
    max_tokens: int


def make_questions(seed: str, n: int, tier: str) -> list[Question]:
    """Families in turn, then shuffled; all of it drawn from the seed."""
    # Random's own string seeding is stable, but hashing first says plainly what the stream depends on.
    rng = Random(int(hashlib.sha256(f"palestra pocket exam 1 {tier} {seed}".encode()).hexdigest(), 16))
    families = TIERS[tier]
    drawn = [_draw(families[number % len(families)], tier, rng) for number in range(n)]
    rng.shuffle(drawn)
    return [Question(f"q{number:05d}", *rest) for number, rest in enumerate(drawn, 1)]


def _draw(one: Family, tier: str, rng: Random) -> tuple[str, str, str, int]:
    item = one.make(rng, OWN_WORDINGS[tier][one.name] if rng.random() < OWN_SHARE else one.templates)
    return one.name, item.prompt, item.answer, one.room


def score(questions: list[Question], lines: list[str]) -> dict[str, object]:
    """Counts strictly right answers, in all and by family."""
    answers = _read_answers({question.id for question in questions}, lines)
    by: dict[str, dict[str, int]] = {
        question.family: {"n": 0, "correct": 0} for question in sorted(questions, key=lambda one: one.family)
    }
    for question in questions:
        right = question.id in answers and check(question.answer, answers[question.id]).strict
        by[question.family]["n"] += 1
        by[question.family]["correct"] += right
    return {"n": len(questions), "correct": sum(one["correct"] for one in by.values()), "by": by}


def _read_answers(known: set[str], lines: list[str]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            _refuse(f"answers line {number} is not JSON: {error}")
        if not isinstance(value, dict) or set(value) != {"id", "text", "finish"}:
            _refuse(f"answers line {number} must be an object with exactly the fields id, text and finish")
        if not isinstance(value["id"], str) or value["id"] not in known:
            _refuse(
                f"answers line {number}: id {value['id']!r} is no question of this exam (seed, n and tier must be those of the questions)"
            )
        if value["id"] in answers:
            _refuse(f"answers line {number}: id {value['id']!r} has an answer already")
        if not isinstance(value["text"], str):
            _refuse(f"answers line {number}: text is {value['text']!r}; it must be a text")
        if value["finish"] not in FINISHES:
            _refuse(
                f"answers line {number}: finish is {value['finish']!r}; it must be one of: {', '.join(FINISHES)}"
            )
        answers[value["id"]] = value["text"]
    return answers


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _refuse(sentence: str) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="exam.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("questions", "score"))
    parser.add_argument("--seed", required=True, metavar="HEX")
    parser.add_argument("--n", required=True, type=int)
    parser.add_argument("--tier", choices=list(TIERS), default="tiny")
    given = parser.parse_args()
    if not re.fullmatch(r"[0-9a-f]{8,128}", given.seed):
        _refuse("--seed must be 8 to 128 lower-case hexadecimal digits")
    if not 1 <= given.n <= MOST_QUESTIONS:
        _refuse(f"--n is {given.n}; it must be from 1 to {MOST_QUESTIONS}")
    questions = make_questions(given.seed, given.n, given.tier)
    if given.verb == "questions":
        for one in questions:
            line = {
                "id": one.id,
                "messages": [{"role": "user", "content": one.prompt}],
                "max_tokens": one.max_tokens,
            }
            print(json.dumps(line, ensure_ascii=True))
        return
    try:
        # Split at newlines only: a line of JSON may hold other characters that count as line breaks elsewhere.
        lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        _refuse(f"the answers are not UTF-8: {error}")
    print(json.dumps(score(questions, lines), ensure_ascii=True))


if __name__ == "__main__":
    main()
