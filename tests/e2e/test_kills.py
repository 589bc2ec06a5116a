"""The server is killed with -9 again and again while a competition runs for real: nothing is lost, and nothing is done twice."""

import asyncio
import hashlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.arena import QUICK, Arena, lay_out, palestra
from tests.e2e.killing import Killer

from palestra.events.corners import SessionStarted
from palestra.events.jobs import AttemptStarted
from palestra.events.spend import CallCharged, CallReserved
from palestra.gateway.player import Performance, Player
from palestra.gateway.scripted import ScriptedServer
from palestra.referee.spend import DEAD_SERVER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SEED = 20
LEAST = 30
"""Kills; there are about 45."""
PLACES = set("opening running closing judging calls attempts sessions copies validations exams".split())
"""Where at least one of them must have struck."""


class Counting(Player):
    """A player that knows how often each request reached it."""

    def __init__(self, player: Player) -> None:
        super().__init__(player.books)
        self.asked: Counter[str] = Counter()

    def play(self, body: bytes) -> Performance:
        self.asked[hashlib.sha256(body).hexdigest()] += 1
        return super().play(body)


@contextmanager
def upstream(playbooks: Path) -> Iterator[tuple[str, Counting]]:
    """The scripted upstream in a thread of this process, so that it outlives every server: its address, and who plays."""
    loop = asyncio.new_event_loop()
    server = ScriptedServer(playbooks)
    player = Counting(server.player)
    server.player = player
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.start(), loop).result(60), player
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_kill_9_anywhere_loses_nothing_and_repeats_nothing(made: Path, tmp_path: Path) -> None:
    """Design 5; F01, F15, F21, S03: agents and jobs are adopted, calls are charged once, one nomination a corner is current."""
    with (
        upstream(QUICK / "playbooks") as (url, player),
        Arena(lay_out(QUICK, made, tmp_path / "quick", url), tmp_path / "runs") as arena,
    ):
        killer = Killer(arena, SEED)
        killer.kill_openings()
        last = killer.kill_lives()
        assert last.leave(1) == 0, last.said()
        killer.witness.look()
        sys.stdout.write("\n".join(map(str, [*killer.kills, killer.witness.adopted, ""])))
        assert len(killer.kills) >= LEAST
        assert killer.left_out() == Counter()
        assert killer.places() >= PLACES
        assert "Traceback" not in last.said()
        everything_ran_once(arena)
        everything_was_charged_once(arena, player)
        the_run_is_whole(arena)


def everything_ran_once(arena: Arena) -> None:
    """By the journal, by what jobs and agents left in their homes, and by the agents' own memories."""
    events = [entry.event for entry in arena.journal.entries]
    attempts = [event.attempt for event in events if isinstance(event, AttemptStarted)]
    sessions = [event.session for event in events if isinstance(event, SessionStarted)]
    assert sorted(sessions) == ["A-s1", "B-s1"]
    assert len(attempts) == len(set(attempts)) == len(arena.journal.cards.jobs)
    assert {attempt.rpartition(".")[2] for attempt in attempts} == {"1"}
    assert {path.name for path in (arena.folder.spool / "attempts").iterdir()} == set(attempts)
    assert {path.name for path in (arena.folder.spool / "sessions").iterdir()} == set(sessions)
    for corner, did in {
        "A": ["look", "submit-a", "submit-b", "nominate-a", "nominate-b", "finish"],
        "B": ["submit-c", "nominate-c", "finish"],
    }.items():
        home = arena.folder.homes / corner / "home"
        assert (home / "did").read_text().split() == did
        mine = sorted(attempt for attempt in attempts if attempt.startswith(corner))
        assert sorted((home / "starts").read_text().split()) == mine
        commands_ran_once(home / ".house" / "conversation.jsonl")


def commands_ran_once(conversation: Path) -> None:
    """Each command of a reply was begun once and has its result, but for the last one: its agent was stopped by rule."""
    begun: list[int] = []
    answered: list[int] = []
    for line in conversation.read_text().splitlines():
        entry: dict[str, Any] = json.loads(line)
        if "finish" in entry:
            assert answered == begun
            begun, answered = [], []
        elif "running" in entry:
            begun.append(entry["running"])
        elif "answers" in entry:
            answered.append(entry["answers"])
            assert "interrupted" not in entry["message"]["content"]
    assert begun == sorted(set(begun))
    assert begun[: len(answered)] == answered


def everything_was_charged_once(arena: Arena, player: Counting) -> None:
    """Each call was settled once; those whose server died at their hold; and no call was made twice upstream."""
    events = [entry.event for entry in arena.journal.entries]
    reserved = [event.call for event in events if isinstance(event, CallReserved)]
    charged = {event.call: event for event in events if isinstance(event, CallCharged)}
    settled = [row.subject for row in arena.journal.rows if row.kind in ("CallCharged", "CallReleased")]
    assert len(reserved) == len(set(reserved))
    assert Counter(settled) == Counter(reserved)
    answered = [call for call, event in charged.items() if event.finish != DEAD_SERVER]
    assert len(answered) <= player.asked.total() <= len(reserved)


def the_run_is_whole(arena: Arena) -> None:
    """Results with scores, one current nomination a corner, and files that bear it all out."""
    state, cards = arena.journal.state, arena.journal.cards
    assert state.clock.stage == "results"
    assert not (state.calls or state.jobs or state.attempts or state.sessions)
    current = [card.nomination for card in cards.nominations.values() if card.current]
    assert sorted(current) == ["A-n2", "B-n1"]
    assert {sitting.target: sitting.over and not sitting.failed for sitting in state.exams.values()} == {
        "base": True,
        "A-n2": True,
        "B-n1": True,
    }
    checked = palestra("verify", arena.folder.path)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "ok"), checked.stdout + checked.stderr
    assert arena.living() == set()
