"""Playbooks: what is wrong in one is told with file, turn and field; the next turn follows from the conversation alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palestra.gateway.playbook import NOTHING_LEFT, Playbook, read_playbook, read_playbooks
from palestra.gateway.player import Player
from palestra.rules.errors import BadInput

BAD = [
    ("turn = [", "the file", "can't be read"),
    ("", "turn", "write at least one [[turn]]"),
    ("turn = 3", "turn", "write at least one [[turn]]"),
    ('agnt = "x"\n[[turn]]\nsay = "a"', "agnt", "fields here are agent, cached"),
    ('latency = "50"\n[[turn]]\nsay = "a"', "latency", "50ms, 50s".split(",")[1].strip()),
    ("latency = 50\n[[turn]]\nsay = 'a'", "latency", "text with a unit"),
    ('cached = 2\n[[turn]]\nsay = "a"', "cached", "from 0 to 1"),
    ('[[turn]]\nsay = "a"\n[[turn]]\nrn = "ls"', "turn 2: rn", "fields here are"),
    ("[[turn]]\ntimes = 2", "turn 1", "needs `say`, `run` or both"),
    ("[[turn]]\nsay = 3", "turn 1: say", "write text"),
    ("[[turn]]\nrun = [1]", "turn 1: run", "a list of commands"),
    ('[[turn]]\nrun = ""', "turn 1: run", "write a command"),
    ('[[turn]]\nsay = "a"\nfault = "fire"', "turn 1: fault", "hangup, 429"),
    ('[[turn]]\nsay = "a"\ntimes = 0', "turn 1: times", "at least 1"),
    ('[[turn]]\nsay = "a"\nrepeat = true\n[[turn]]\nsay = "b"', "turn 1: repeat", "in the last turn only"),
    ('[[turn]]\nrun = "ls"\nuntil = "("', "turn 1: until", "regular expression"),
    ('[[turn]]\nsay = "a"\nuntil = "x"', "turn 1: until", "needs `run`"),
    ('[[turn]]\nsay = "{{re:(}}"', "turn 1: {{re:...}}", "regular expression"),
]


@pytest.mark.parametrize(("text", "field", "right"), BAD)
def test_what_is_wrong_is_told_with_file_turn_and_field(
    text: str, field: str, right: str, tmp_path: Path
) -> None:
    """Each message names the place and what would be right."""
    path = tmp_path / "careful.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as bad:
        read_playbook(path)
    assert "careful.toml" in str(bad.value)
    assert bad.value.field.endswith(field) or field == bad.value.value
    assert right in str(bad.value)


def test_a_folder_without_playbooks_is_told(tmp_path: Path) -> None:
    """An empty folder, and none at all."""
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match=r"NAME\.toml"):
            read_playbooks(folder)


class Talk:
    """A client with a shell tool, talking to a player."""

    def __init__(self, player: Player, so_far: int | None = None, tool: str = "shell") -> None:
        self.player = player
        first = "the task" if so_far is None else f"Turns so far: {so_far}\n\nthe task\nnotes: job A-j9"
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
        self.tool = tool

    def next(self, *results: str) -> str:
        """Give results, get the next turn: its text and commands."""
        calls = self.messages[-1].get("tool_calls") or []
        for call, result in zip(calls, results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        body = {"model": "m", "messages": self.messages}
        if self.tool:
            body["tools"] = [{"type": "function", "function": {"name": self.tool}}]
        played = self.player.play(msgspec.json.encode(body))
        assert played.status == 200
        message = json.loads(b"".join(played.pieces))["choices"][0]["message"]
        self.messages.append(message)
        commands = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
        return " | ".join([message["content"] or "", *commands])


def player(text: str, tmp_path: Path) -> Player:
    path = tmp_path / "m.toml"
    path.write_text(text)
    return Player({"m": read_playbook(path)})


BOOK = """
agent = "Careful"
[[turn]]
say = "look"
run = ["ls", "arena status"]
[[turn]]
say = "wait"
run = "arena jobs"
until = "ended"
[[turn]]
say = "twice"
run = "arena logs {{re:job (\\\\w-j\\\\d+)}}"
times = 2
[[turn]]
say = "mend"
run = "fix"
unless = "all good"
[[turn]]
say = "done with {{re:job (\\\\w-j\\\\d+)}}"
"""


def test_turns_are_played_in_order(tmp_path: Path) -> None:
    """Several calls, until, times, unless, a place that is filled in, and the end."""
    talk = Talk(player(BOOK, tmp_path))
    assert talk.next() == 'look | {"command":"ls"} | {"command":"arena status"}'
    assert talk.next("x", "y") == 'wait | {"command":"arena jobs"}'
    assert talk.next("job A-j1 running") == 'wait | {"command":"arena jobs"}'
    assert talk.next("job A-j1, job A-j2 ended") == 'twice | {"command":"arena logs A-j2"}'
    assert talk.next("log") == 'twice | {"command":"arena logs A-j2"}'
    assert talk.next("all good") == "done with A-j2"
    assert talk.next() == NOTHING_LEFT
    identities = [call["id"] for message in talk.messages for call in message.get("tool_calls") or ()]
    assert len(set(identities)) == len(identities) == 6


def test_the_other_way_at_unless(tmp_path: Path) -> None:
    """Where it doesn't match, the turn is played."""
    talk = Talk(player(BOOK, tmp_path))
    for results in ((), ("", ""), ("ended",), ("",)):
        talk.next(*results)
    assert talk.next("2 errors") == 'mend | {"command":"fix"}'


def test_it_goes_on_after_a_context_reset(tmp_path: Path) -> None:
    """The harness says how many turns there were; the player knows which turn that was, also where one was repeated."""
    players = player(BOOK, tmp_path)
    talk = Talk(players, 0)
    for results in ((), ("", ""), ("",), ("",), ("ended",)):
        talk.next(*results)
    anew = Talk(players, 5)
    assert anew.next() == 'twice | {"command":"arena logs A-j9"}'
    assert anew.next("all good") == "done with A-j9"
    forgetful = Talk(player(BOOK, tmp_path), 4)
    assert forgetful.next() == 'mend | {"command":"fix"}'


def test_nothing_need_be_remembered_within_a_conversation(tmp_path: Path) -> None:
    """A player that was restarted goes on from the ids of the calls."""
    talk = Talk(player(BOOK, tmp_path), 40)
    talk.messages[0]["content"] = "Turns so far: 0"
    for results in ((), ("", ""), ("",), ("",)):
        talk.next(*results)
    talk.player = player(BOOK, tmp_path)
    assert talk.next("ended").startswith("twice")


def test_a_last_turn_may_repeat(tmp_path: Path) -> None:
    """For agents that go on for ever."""
    talk = Talk(player('[[turn]]\nsay = "a"\n[[turn]]\nsay = "b"\nrun = "ls"\nrepeat = true', tmp_path))
    said = [talk.next(), talk.next(), *(talk.next("x") for _ in range(5))]
    assert [text[0] for text in said] == ["a", *"bbbbbb"]


@pytest.mark.parametrize(
    ("tool", "commands"),
    [
        ("bash", ' | {"command":"ls"}'),
        ("exec_command", ' | {"cmd":"ls"}'),
        ("other", ' | {"command":"ls"}'),
        ("", ""),
    ],
)
def test_the_clients_own_shell_tool_is_called(tool: str, commands: str, tmp_path: Path) -> None:
    """Known clients name it differently; one without tools gets text."""
    talk = Talk(player('[[turn]]\nsay = "a"\nrun = "ls"', tmp_path), tool=tool)
    assert talk.next() == f"a{commands}"


def test_the_notes_own_example_is_read(tmp_path: Path) -> None:
    """Zero durations are fine here."""
    path = tmp_path / "careful.toml"
    path.write_text('agent = "Careful"\nlatency = "50ms"\nper_token = "0ms"\n[[turn]]\nsay = "Done."')
    book = read_playbook(path)
    assert isinstance(book, Playbook)
    assert (book.agent, book.latency, book.per_token, len(book.turns)) == ("Careful", 50_000, 0, 1)
