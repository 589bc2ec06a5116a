"""A small competition on disk, and a run of it opened on a memory journal: what the tests of this room begin with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from palestra.events.codec import Row, read_entry
from palestra.events.runs import RunOpened
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.referee.observations import ServerUp
from palestra.referee.requests import Receipt
from palestra.rules.units import Moment
from palestra.runtime.book import Book
from palestra.runtime.folder import RunFolder
from palestra.runtime.opening import Source, finish_opening, open_folder, read_source

TOML = """
palestra = 1
name = "small"
title = "Small"

[stages]
start = "at-run"
running = "10m"
closing = "1m"
judging = "1m"

[allowance]
api_credit = "$1"
gpu_time = "10m"

[base]
path = "base"

[[nodes]]
name = "local"
gpus = 2
memory = "1GiB"

[jobs]
longest = "5m"
gpus_per_job = 1
gpus_running = 2

[[upstreams]]
name = "scripted"
playbooks = "playbooks"

[[models]]
name = "small"
upstream = "scripted"
input = "$1"
output = "$1"

[serving]
base = ["serve", "{socket}"]
adapter = ["serve", "{model}", "{socket}"]
full = ["serve", "{model}", "{socket}"]
memory = "1GiB"
longest = "1m"

[exam]
program = "exam.py"
questions = 3
"""
SLEEPER = """
[[entrants]]
name = "Sleeper"
harness = "command"
command = ["sleep", "600"]
"""
EXAM = """
import json, sys
verb, n = sys.argv[1], int(sys.argv[sys.argv.index("--n") + 1])
if verb == "questions":
    for number in range(n):
        print(json.dumps({"id": f"q{number}", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}))
else:
    print(json.dumps({"n": n, "correct": sum(json.loads(line)["text"] == "yes" for line in sys.stdin)}))
"""
PLAYBOOK = '[[turn]]\nsay = "Done."\n'
AT = Moment(1_796_137_200_000_000)


def write_competition(folder: Path, entrants: str = SLEEPER, toml: str = TOML) -> Path:
    """The competition's file; everything that it names lies beside it."""
    place = folder / "competition"
    (place / "playbooks").mkdir(parents=True)
    (place / "base").mkdir()
    (place / "base" / "config.json").write_text("{}")
    (place / "exam.py").write_text(EXAM)
    (place / "playbooks" / "small.toml").write_text(PLAYBOOK)
    (place / "competition.toml").write_text(toml + entrants)
    return place / "competition.toml"


class Opened(NamedTuple):
    """A run as it was just opened."""

    folder: RunFolder
    source: Source
    rows: tuple[Row, ...]
    record: MemoryRecord
    opened: RunOpened


def opened(folder: Path, file: Path) -> Opened:
    """Open a run as the server does, with its rows in memory."""
    source, run = read_source(file), RunFolder(folder / "runs" / "small")
    request = open_folder(run, source, "small-1", AT, "none")
    record, journal, book = MemoryRecord(), MemoryJournal("small-1"), Book("small-1")
    for name in ("competition.toml", "terms.md", "exam.py"):
        record.put((run.competition / name).read_bytes())
    outcome = book.ask(request, AT)
    assert isinstance(outcome.answer, Receipt)
    rows = outcome.rows + book.tell(ServerUp(1, "0"), AT)
    journal.append(rows)
    finish_opening(run, source, "small-1")
    event = read_entry(rows[0]).event
    assert isinstance(event, RunOpened)
    return Opened(run, source, rows, record, event)
