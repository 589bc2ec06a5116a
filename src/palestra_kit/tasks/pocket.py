"""The pocket tier: ten families in plain English, for a model of about 135M parameters. Prompts are 10 to 30 tokens long."""

from __future__ import annotations

import json
from random import Random

from palestra_kit.tasks.families import Family, Fields

WORDS = tuple(
    "ant apple arm bag ball band bank barn bean bear bed bell belt bird boat bone book boot bowl box bread brick bridge brush "
    "bus cake camp candle car card cart cat chair chalk cheese chin city clock cloud coat coin cook corn cow crab cup dance "
    "deer desk dish dog door drum duck dust ear earth egg elbow farm feather fence field fig fire fish flag floor flower fly "
    "fog fork fox frog fruit game garden gate ghost glass glove goat gold grape grass hall hammer hand hat hay hen hill home "
    "honey horse house ice iron island jacket jam jar jewel key king kite knee knife lake lamp leaf leg lemon lion lock log "
    "map milk mill mint mirror moon moth mouse mud music nail neck needle nest net night nose nut oak ocean oil onion oven owl "
    "page paint pan paper park path pea pear pen piano pig pipe plane plant plate pond pot queen rain ring river road robe rock "
    "roof room root rope rose sail salt sand school sea seed sheep shell ship shirt shoe shop silk sky snow soap sock song "
    "soup spoon star stick stone storm straw sun table tail tent thumb tiger toe tower toy train tree truck valley van vase "
    "wall water wave wheel whale wind wing wolf wood wool yard zebra".split()
)
THINGS = (
    "apples",
    "books",
    "boxes",
    "cards",
    "coins",
    "cups",
    "eggs",
    "hats",
    "keys",
    "lamps",
    "pens",
    "shirts",
)
KEYS = ("animal", "city", "color", "fruit", "label", "name", "place", "tool")
COUNTS = ("age", "amount", "count", "height", "number", "price", "size", "weight")
ORDINALS = ("first", "second", "third", "fourth")


def _several(rng: Random, count: int) -> list[str]:
    return rng.sample(WORDS, count)


def _word(rng: Random) -> Fields:
    return {"word": rng.choice(WORDS)}


def _three(rng: Random) -> Fields:
    return {"words": " ".join(_several(rng, 3))}


def _some(rng: Random) -> Fields:
    return {"words": " ".join(_several(rng, rng.randrange(3, 8)))}


def _nth(rng: Random) -> Fields:
    return {"nth": rng.choice(ORDINALS), "words": " ".join(_several(rng, rng.randrange(4, 7)))}


def _list(rng: Random) -> Fields:
    return {"list": ", ".join(_several(rng, 4))}


def _sum(rng: Random) -> Fields:
    return {"a": str(rng.randrange(10, 100)), "b": str(rng.randrange(10, 100))}


def _rest(rng: Random) -> Fields:
    a = rng.randrange(6, 30)
    return {"a": str(a), "b": str(rng.randrange(2, a)), "thing": rng.choice(THINGS)}


def _record(rng: Random) -> Fields:
    return {
        "key": rng.choice(KEYS),
        "word": rng.choice(WORDS),
        "key2": rng.choice(COUNTS),
        "a": str(rng.randrange(2, 100)),
    }


FAMILIES = (
    Family(
        "sum",
        _sum,
        lambda fields: str(int(fields["a"]) + int(fields["b"])),
        ("What is {a} + {b}? Give only the number.", "Add {a} and {b}. Give only the number."),
        ("Work out the sum of {a} and {b}. Just the number.",),
        room=16,
    ),
    Family(
        "rest",
        _rest,
        lambda fields: str(int(fields["a"]) - int(fields["b"])),
        (
            "A shop has {a} {thing} and sells {b}. How many are left? Give only the number.",
            "There are {a} {thing} on a table. I take {b} away. How many remain? Give only the number.",
        ),
        ("From {a} {thing} we lose {b}. How many do we still have? Just the number.",),
        room=16,
    ),
    Family(
        "upper",
        _three,
        lambda fields: fields["words"].upper(),
        ("Write in capital letters: {words}", "Make this upper case: {words}"),
        ("Turn every letter into a capital: {words}",),
        room=32,
    ),
    Family(
        "sort",
        _list,
        lambda fields: ", ".join(sorted(fields["list"].split(", "))),
        ("Sort these words from A to Z: {list}", "Put in alphabetical order: {list}"),
        ("Order this list by the alphabet: {list}",),
        room=32,
    ),
    Family(
        "reverse",
        _list,
        lambda fields: ", ".join(reversed(fields["list"].split(", "))),
        ("Reverse the order of this list: {list}", "Write this list backwards, last word first: {list}"),
        ("List these from the end to the start: {list}",),
        room=32,
    ),
    Family(
        "json",
        _record,
        lambda fields: json.dumps({fields["key"]: fields["word"], fields["key2"]: int(fields["a"])}),
        (
            'Write one line of JSON: key "{key}" is the text "{word}", key "{key2}" is the number {a}.',
            "Give a JSON object with {key} set to the text {word} and {key2} set to the number {a}.",
        ),
        ("As JSON on one line, please: {key} = {word} (text), {key2} = {a} (number).",),
        room=40,
    ),
    Family(
        "count",
        _some,
        lambda fields: str(len(fields["words"].split())),
        ("How many words are there: {words}", "Count the words. Give only the number: {words}"),
        ("Number of words in this line: {words}",),
        room=16,
    ),
    Family(
        "pick",
        _nth,
        lambda fields: fields["words"].split()[ORDINALS.index(fields["nth"])],
        ("What is the {nth} word here: {words}", "Give only the {nth} word of: {words}"),
        ("Pick out the {nth} word in this line: {words}",),
        room=16,
    ),
    Family(
        "bracket",
        _word,
        lambda fields: f"[{fields['word']}]",
        ("Put square brackets around this word: {word}", "Write the word {word} inside square brackets."),
        ("Wrap in square brackets: {word}",),
        room=16,
    ),
    Family(
        "ending",
        _word,
        lambda fields: fields["word"][-1],
        ("What is the last letter of the word {word}?", "Give only the last letter of {word}."),
        ("Which letter does the word {word} end with?",),
        room=16,
    ),
)
