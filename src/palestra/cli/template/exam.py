"""The hidden exam: a seed in, questions out; answers in, a score out. Entrants never see this file or the seed.

    exam.py questions --seed HEX --n N     prints N lines {"id", "messages", "max_tokens"}
    exam.py score     --seed HEX --n N     reads lines {"id", "text", "finish"}, prints {"n", "correct"}

The same seed must always give the same questions: Palestra scores the kept answers again when a run is verified.
"""

import argparse
import json
import random
import string
import sys

# What is asked: the wording, and the right answer for a word. Put your own tasks here.
TASKS = (
    ("please wrap: {word}", lambda word: f"[{word}]"),
    ("wrap {word}", lambda word: f"[{word}]"),
    ("please caps: {word}", lambda word: word.upper()),
    ("last {word}", lambda word: word[-1]),
)
LONGEST_ANSWER = 12  # tokens


def make(seed: str, n: int) -> list[tuple[str, str, str]]:
    """(id, prompt, right answer) of every question."""
    draw = random.Random(f"exam {seed}")  # seeded with text, so the same on every machine
    made = []
    for number in range(n):
        wording, answer = TASKS[number % len(TASKS)]
        word = "".join(draw.choice(string.ascii_lowercase) for _ in range(3))
        made.append((f"q{number + 1:05d}", wording.format(word=word), answer(word)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("questions", "score"))
    parser.add_argument("--seed", required=True)
    parser.add_argument("--n", required=True, type=int)
    given = parser.parse_args()
    questions = make(given.seed, given.n)
    if given.verb == "questions":
        for name, prompt, _ in questions:
            messages = [{"role": "user", "content": prompt}]
            print(json.dumps({"id": name, "messages": messages, "max_tokens": LONGEST_ANSWER}))
        return
    # A missing answer is a wrong one. Only the text counts, not how it ended.
    answers = {one["id"]: one["text"] for one in map(json.loads, sys.stdin) if isinstance(one["text"], str)}
    correct = sum(answers.get(name, "").strip() == right for name, _, right in questions)
    print(json.dumps({"n": len(questions), "correct": correct}))


if __name__ == "__main__":
    main()
