"""Playbooks for the scripted upstream: TOML in, checked turns out; a conversation in, the turn to play out. Pure but for reading files.

agent = "Careful"            # shown in logs only
latency = "50ms"             # before the first byte
per_token = "1ms"            # between pieces of a stream
cached = 0.5                 # the part of the input told to be cached
[[turn]]
say = "I look at the data."
run = "head -n 3 data/pool/pool.jsonl"     # a list makes several calls of the client's shell tool
until = "ready"              # the same turn again, until a result of it matches
[[turn]]
say = "Job {{re:job (\\w-j\\d+)}} is queued."  # the first group of the last match in the tool results
unless = "no GPU"            # skipped when the last results match
times = 2
[[turn]]
say = "Done."                # without `run` it is plain text
repeat = true                # the last turn for ever
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from palestra.rules.errors import BadInput
from palestra.rules.quantities import read_duration
from palestra.rules.units import SECOND, Micros

FAULTS = ("hangup", "429", "500", "no_usage", "cut", "slow")
NOTHING_LEFT = "I have nothing left to do."
_ZERO = re.compile(r"0(ms|s|m|h)")
_PLACE = re.compile(r"\{\{re:(.+?)\}\}")
_SO_FAR = re.compile(r"^Turns so far: (\d+)\s*$", re.MULTILINE)
_TURN_OF_ID = re.compile(r"call_(\d+)_\d+_\d+")


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of the model."""

    say: str = ""
    run: tuple[str, ...] = ()
    until: str = ""
    unless: str = ""
    fault: str = ""
    fault_times: int = 1
    """How often one and the same request meets `429`, `500` or `hangup`; after that it is answered."""


class Playbook(msgspec.Struct, frozen=True, kw_only=True):
    """What a model plays. Turns with `times` are here as often as they are played."""

    name: str
    agent: str
    turns: tuple[Turn, ...]
    repeats: bool = False
    latency: Micros = Micros(0)
    per_token: Micros = Micros(0)
    cached: float = 0.0


class Said(msgspec.Struct, frozen=True):
    """A message of a conversation, as far as a playbook looks at it."""

    role: str
    text: str = ""
    calls: tuple[str, ...] = ()
    """The ids of its tool calls."""


class Cue(msgspec.Struct, frozen=True):
    """Where a conversation has come to: the turn to play, and how many replies there were over all contexts."""

    turn: int
    replies: int


def read_playbooks(folder: Path) -> dict[str, Playbook]:
    """All `*.toml` of a folder, by their stems: the names of models. `BadInput` says what is wrong where."""
    if not folder.is_dir():
        raise BadInput(
            "playbooks", str(folder), "name a folder of playbooks, one NAME.toml for each model NAME"
        )
    books = {path.stem: read_playbook(path) for path in sorted(folder.glob("*.toml"))}
    if not books:
        raise BadInput(
            "playbooks", str(folder), "put at least one NAME.toml there; NAME is the model it plays"
        )
    return books


def read_playbook(path: Path) -> Playbook:
    """One playbook. `BadInput` names file, turn number and field."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(str(path), "the file", str(error)) from error
    _only(data, {"agent", "latency", "per_token", "cached", "turn"}, str(path))
    turns = data.get("turn")
    if not isinstance(turns, list) or not turns:
        raise BadInput(f"{path}: turn", turns, "write at least one [[turn]]")
    read: list[Turn] = []
    for number, turn in enumerate(turns, 1):
        read += _read_turn(turn, f"{path}: turn {number}", last=number == len(turns))
    cached = data.get("cached", 0.0)
    if isinstance(cached, bool) or not isinstance(cached, int | float) or not 0 <= cached <= 1:
        raise BadInput(f"{path}: cached", cached, "write a number from 0 to 1")
    return Playbook(
        name=path.stem,
        agent=_text(data, "agent", str(path)) or path.stem,
        turns=tuple(read),
        repeats=turns[-1].get("repeat", False),
        latency=_span(data, "latency", str(path)),
        per_token=_span(data, "per_token", str(path)),
        cached=float(cached),
    )


def _read_turn(data: Any, where: str, *, last: bool) -> list[Turn]:
    if not isinstance(data, dict):
        raise BadInput(where, data, "write it as a table: [[turn]]")
    _only(data, {"say", "run", "until", "unless", "fault", "fault_times", "times", "repeat"}, where)
    run = data.get("run", [])
    commands = [run] if isinstance(run, str) else run
    if not isinstance(commands, list) or not all(isinstance(line, str) and line.strip() for line in commands):
        raise BadInput(f"{where}: run", run, "write a command, or a list of commands")
    say = _text(data, "say", where)
    if not say and not commands:
        raise BadInput(where, data, "a turn needs `say`, `run` or both")
    fault = _text(data, "fault", where)
    if fault and fault not in FAULTS:
        raise BadInput(f"{where}: fault", fault, f"write one of {', '.join(FAULTS)}")
    if not isinstance(data.get("repeat", False), bool) or (data.get("repeat") and not last):
        raise BadInput(f"{where}: repeat", data["repeat"], "write true, in the last turn only")
    turn = Turn(
        say=say,
        run=tuple(commands),
        until=_pattern(data, "until", where),
        unless=_pattern(data, "unless", where),
        fault=fault,
        fault_times=_count(data, "fault_times", where),
    )
    if turn.until and not commands:
        raise BadInput(
            f"{where}: until", turn.until, "a turn with `until` needs `run`: it waits for the results of that"
        )
    for text in (say, *commands):
        for pattern in _PLACE.findall(text):
            _pattern({"{{re:...}}": pattern}, "{{re:...}}", where)
    return [turn] * _count(data, "times", where)


def _only(data: Mapping[str, Any], known: set[str], where: str) -> None:
    for field in data:
        if field not in known:
            raise BadInput(f"{where}: {field}", data[field], f"fields here are {', '.join(sorted(known))}")


def _text(data: Mapping[str, Any], field: str, where: str) -> str:
    value = data.get(field, "")
    if not isinstance(value, str):
        raise BadInput(f"{where}: {field}", value, "write text")
    return value


def _pattern(data: Mapping[str, Any], field: str, where: str) -> str:
    text = _text(data, field, where)
    try:
        re.compile(text)
    except re.error as error:
        raise BadInput(f"{where}: {field}", text, f"write a regular expression; {error}") from None
    return text


def _count(data: Mapping[str, Any], field: str, where: str) -> int:
    value = data.get(field, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{where}: {field}", value, "write a whole number, at least 1")
    return value


def _span(data: Mapping[str, Any], field: str, where: str) -> Micros:
    value = data.get(field, "0s")
    if isinstance(value, str) and _ZERO.fullmatch(value):
        return Micros(0)
    return read_duration(value, f"{where}: {field}", longest=600 * SECOND)


def find_cue(book: Playbook, said: Sequence[Said], played: Mapping[int, int]) -> Cue:
    """Which turn comes next. A call's id tells which turn it was of, so nothing need be remembered within a conversation.

    After a context reset (`Turns so far: N` in the first user message) it goes on after the turn that was `played` as
    the N-th reply; where that isn't known, replies are taken to be turns.
    """
    before = _replies_before(said)
    turn = before - 1 if before - 1 not in played else played[before - 1]
    results: list[str] = []
    replies = before
    for message in said:
        if message.role == "tool":
            results.append(message.text)
        elif message.role == "assistant":
            told = [int(found[1]) for call in message.calls if (found := _TURN_OF_ID.fullmatch(call))]
            turn = told[0] if told else _next(book, turn, results)
            replies += 1
            results = []
    return Cue(_next(book, turn, results), replies)


def _replies_before(said: Sequence[Said]) -> int:
    first = next((message.text for message in said if message.role == "user"), "")
    found = _SO_FAR.search(first)
    return int(found[1]) if found else 0


def _next(book: Playbook, turn: int, results: Sequence[str]) -> int:
    """The turn after `turn` (-1: none yet), given what came of it."""
    text = "\n".join(results)
    if 0 <= turn < len(book.turns) and (until := book.turns[turn].until) and not re.search(until, text):
        return turn
    turn += 1
    while turn < len(book.turns) and (unless := book.turns[turn].unless) and re.search(unless, text):
        turn += 1
    return turn


def turn_at(book: Playbook, turn: int) -> Turn:
    """The turn of this number; past the end the last one, where it repeats, or a goodbye."""
    if turn < len(book.turns):
        return book.turns[turn]
    return book.turns[-1] if book.repeats else Turn(say=NOTHING_LEFT)


def fill_in(text: str, said: Sequence[Said]) -> str:
    """`{{re:PATTERN}}` becomes the last match in the tool results, else in what the user said first, else `no-match`."""
    results = [message.text for message in said if message.role == "tool"]
    notes = [message.text for message in said if message.role == "user"][:1]

    def find(place: re.Match[str]) -> str:
        for texts in (reversed(results), notes):
            for where in texts:
                if matches := list(re.finditer(place[1], where)):
                    match = matches[-1]
                    return str(match[1] if match.re.groups else match[0])
        return "no-match"

    return _PLACE.sub(find, text)
