"""A competition laid out in a test's own folder and served by real processes: the journal is read as it grows, and all is ended after it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from palestra.client.connection import Connection
from palestra.events.base import Entry
from palestra.events.codec import Row, read_entry
from palestra.journal.tail import Tail
from palestra.runtime.folder import RunFolder
from palestra.runtime.seats import TOKENS
from palestra.state import catalog, fold
from palestra.state.arena import State
from palestra.state.catalog import Catalog

ROOT = Path(__file__).resolve().parents[2]
POCKET = ROOT / "competitions" / "pocket-arena"
QUICK = Path(__file__).parent / "competitions" / "quick"
MADE = ("tiny-base", "tiny-pool")
BARE = Path(__file__).parent / "competitions" / "bare"
LOOK = 0.02
"""Seconds between two looks at a journal or a file that somebody waits for."""
PATIENCE = 900.0
"""Seconds for anything that trains: the jobs are nice, and the machine may be busy."""


def lay_out(competition: Path, made: Path, target: Path, url: str = "") -> Path:
    """A copy of a competition with its base, pool and exam; with `url`, an upstream outside answers in place of playbooks."""
    shutil.copytree(competition, target, ignore=shutil.ignore_patterns("made", "__pycache__"))
    for name in MADE:
        shutil.copytree(made / name, target / "made" / name)
    shutil.copy(POCKET / "exam.py", target / "exam.py")
    if url:
        toml = target / "competition.toml"
        text = toml.read_text()
        assert text.count('playbooks = "playbooks"') == 1
        toml.write_text(text.replace('playbooks = "playbooks"', f'url = "{url}"'))
    return target


def lay_out_bare(competition: Path, target: Path) -> Path:
    """A copy of the bare competition: its exam program is told which folder to look into."""
    shutil.copytree(competition, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("base", "held"):
        (target / name).mkdir()
    (target / "base" / "config.json").write_text("{}")
    exam = target / "exam.py"
    exam.write_text(exam.read_text().replace("@HELD@", str(target / "held")))
    return target


def palestra(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """An organiser's command, to its end."""
    argv = [sys.executable, "-m", "palestra", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)


class Journal:
    """A run's journal as another process sees it, read on from where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tail = Tail(folder)
        self.rows: list[Row] = []
        self.entries: list[Entry] = []
        self.state, self.cards = State(), Catalog()

    def read(self) -> list[Entry]:
        """What is new; nothing until the run is opened, as a journal before that may yet be set aside."""
        new: list[Entry] = []
        if not RunFolder(self._folder).exists:
            return new
        for row in self._tail.rows():
            entry = read_entry(row)
            fold.fold(self.state, entry)
            catalog.fold(self.cards, entry)
            self.rows.append(row)
            new.append(entry)
        self.entries += new
        return new

    def digests(self) -> list[bytes]:
        """All rows' digests, read anew from the first one on."""
        fresh = Tail(self._folder)
        try:
            return [row.digest for row in fresh.rows()]
        finally:
            fresh.close()

    def kinds(self) -> list[str]:
        """The kinds of all rows so far."""
        return [row.kind for row in self.rows]

    def close(self) -> None:
        self._tail.close()


class Served:
    """One `palestra run` process."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kill -9, and nothing else: what it started isn't touched."""
        self.process.kill()
        self.process.wait()

    def ask_to_stop(self) -> None:
        """As Ctrl-C or a supervisor does."""
        self.process.send_signal(signal.SIGTERM)

    def leave(self, seconds: float) -> int:
        """Its exit code, once it has left by itself."""
        return self.process.wait(timeout=seconds)

    def said(self) -> str:
        """All that the servers of this run said."""
        return self.log.read_text(errors="replace")


class Arena:
    """One competition and one run of it. On leaving, every process that the run started is ended, by its pid."""

    def __init__(self, competition: Path, runs: Path, name: str = "run") -> None:
        self.competition = competition
        self.runs = runs
        self.name = name
        self.folder = RunFolder(runs / name)
        self.journal = Journal(self.folder.path)
        self._servers: list[Served] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.journal.close()
        for server in self._servers:
            if not server.ended:
                server.kill()
        end_all(self.folder.path)

    def serve(self, *more: str) -> Served:
        """Open the run, or go on with it."""
        argv = [
            sys.executable,
            "-m",
            "palestra",
            "run",
            str(self.competition),
            "--runs",
            str(self.runs),
            "--no-open",
        ]
        self.runs.mkdir(parents=True, exist_ok=True)
        server = Served([*argv, "--run", self.name, *more], self.runs / f"{self.name}.log")
        self._servers.append(server)
        return server

    def until(
        self, server: Served | None, wanted: Callable[[], object], seconds: float = PATIENCE, what: str = ""
    ) -> None:
        """Read on until it is so; a server that leaves meanwhile, or time that is over, fails the test with the log."""
        deadline = time.monotonic() + seconds
        while True:
            self.journal.read()
            if wanted():
                return
            said = "".join(one.said() for one in self._servers[-1:])
            assert server is None or not server.ended, f"the server left while waiting for {what}:\n{said}"
            assert time.monotonic() < deadline, f"{seconds:.0f} s are over, waiting for {what}:\n{said}"
            time.sleep(LOOK)

    def until_row(self, server: Served | None, kind: str, count: int = 1, seconds: float = PATIENCE) -> None:
        """Read on until the journal holds so many rows of this kind."""
        self.until(server, lambda: self.journal.kinds().count(kind) >= count, seconds, f"{count} {kind}")

    def door(self, corner: str) -> Connection:
        """The entrant's way in, as its agent has it."""
        tokens = json.loads(self.folder.read_secret(TOKENS))
        return Connection(str(self.folder.corner_socket(corner)), tokens[corner], patience=30)

    def living(self) -> set[int]:
        """Processes that agents and jobs of this run are."""
        unit = f"PALESTRA_UNIT={self.folder.read().run}/".encode()
        return {
            pid for pid, environment, _ in processes() if any(one.startswith(unit) for one in environment)
        }


class Finished(NamedTuple):
    """A run that came to its end undisturbed."""

    competition: Path
    folder: Path
    exit_code: int
    said: str


def processes() -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """Every process that we may look at: pid, environment, argv."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                yield int(folder.name), environment, (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue


def end_all(run: Path) -> None:
    """Kill what the run in this folder started: whatever carries its units or was told of its folder."""
    run_file = RunFolder(run)
    unit = f"PALESTRA_UNIT={run_file.read().run}/".encode() if run_file.exists else None
    place = str(run).encode()
    deadline = time.monotonic() + 60
    while True:
        ours = [
            pid
            for pid, environment, argv in processes()
            if any(place in word for word in argv)
            or (unit is not None and any(one.startswith(unit) for one in environment))
        ]
        for pid in ours:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not ours:
            return
        assert time.monotonic() < deadline, f"these don't go: {ours}"
        time.sleep(LOOK)
