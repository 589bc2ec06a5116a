"""A served arena for these tests: the real desk, door and gateway on unix sockets, in a loop of their own; time moves when told."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from tests.building import RUN, SEED, START, competition, events_of, open_run
from tests.runtime.crashing import Outside, Quiz

from palestra.client import arena as client
from palestra.cluster.fake import Behaviour
from palestra.cluster.homes import FolderHomes
from palestra.events.base import Event
from palestra.gateway.app import Gateway, Limits, Route
from palestra.gateway.playbook import read_playbook
from palestra.gateway.player import Player
from palestra.gateway.scripted import ScriptedUpstream
from palestra.gateway.transcript import Recorder
from palestra.journal.writer import SyncWriter
from palestra.ports import AttemptSpec
from palestra.referee.observations import Observation, ServerUp, Tick
from palestra.referee.requests import Receipt, Request
from palestra.rules.competition import Competition
from palestra.rules.errors import Refusal
from palestra.rules.units import Micros, Moment
from palestra.runtime.book import Book
from palestra.runtime.compare import StopAttempt, StopSession, World, compare
from palestra.runtime.desk import Desk
from palestra.runtime.hands import Hands, Surroundings
from palestra.runtime.house import House
from palestra.runtime.reconciler import still_open
from palestra.state.arena import State
from palestra.web.doors import Doors
from palestra.web.entrant import Door

DEADLINE = 30.0
TOKENS = {"A": "token-of-A", "B": "token-of-B"}
TERMS = "Be fair – and quick."
PLAYBOOK = """
[[turn]]
say = "I have nothing left to do."
repeat = true
"""
T = TypeVar("T")


class Answer(NamedTuple):
    """One HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What went wrong."""
        error: dict[str, Any] = self.json["error"]
        return error


class Ran(NamedTuple):
    """What an `arena` command left: its exit code and what it printed."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Its standard output."""
        return self.out.decode()

    @property
    def words(self) -> str:
        """All that it said, on one line."""
        return " ".join((self.text + self.err).split())

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)


class Arena:
    """Two corners' doors. Everything that touches the desk runs on its loop; the test's own thread is an agent."""

    def __init__(
        self,
        folder: Path,
        rules: Competition | None = None,
        behave: Callable[[AttemptSpec], Behaviour] | None = None,
    ) -> None:
        self.folder = folder
        self.rules = rules or competition()
        self.started: list[AttemptSpec] = []
        self._behaviour = behave or (lambda spec: Behaviour(runs=None))
        self.outside = Outside(folder, self._behave)
        self.homes = FolderHomes(folder / "homes")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._done: set[object] = set()
        self.doors: Doors
        self.desk: Desk

    def start(self) -> None:
        """Open the run and its doors."""
        self._thread.start()
        self.on_loop(self._open())

    def stop(self) -> None:
        """Close the doors and the loop."""
        self.on_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done where the desk lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE)

    # What the organiser's side does

    async def _open(self) -> None:
        outside = self.outside
        self.desk = Desk(Book(RUN), SyncWriter(outside.journal, outside.record), outside.clock)
        assert isinstance(await self.desk.ask(open_run(self.rules)), Receipt)
        await self.desk.tell(ServerUp(1, "0"))
        self._hands = self._make_hands()
        self._gateway = self._make_gateway()
        self.doors = Doors()
        for corner in TOKENS:
            home = self.home(corner)
            door = Door(corner, TOKENS, self.desk, outside.executor, home, TERMS)
            await self.doors.open(self.socket(corner), door.app(self._gateway))

    async def _close(self) -> None:
        await self._gateway.drain(0)
        await self.doors.close()

    def _behave(self, spec: AttemptSpec) -> Behaviour:
        self.started.append(spec)
        return self._behaviour(spec)

    def _make_hands(self) -> Hands:
        outside, folder = self.outside, self.folder
        house = House(folder / "house", self.rules.serving, Path("/base"), Quiz(), RUN)
        around = Surroundings(
            spool=folder / "spool",
            homes=folder / "homes",
            base=Path("/base"),
            reports=folder,
            tokens=TOKENS,
            sockets={corner: str(self.socket(corner)) for corner in TOKENS},
            arena=Path("/bin/arena"),
            python="/usr/bin/python3",
            exam_seed=SEED,
        )
        return Hands(
            outside.executor, outside.sessions, outside.vault, outside.record, Quiz(), house, around, self.desk.keep
        )  # fmt: skip

    def _make_gateway(self) -> Gateway:
        book = self.folder / "small-1.toml"
        book.write_text(PLAYBOOK)
        upstream = ScriptedUpstream(Player({"small-1": read_playbook(book)}))
        recorder = Recorder(self.desk, self.outside.clock)
        limits = Limits(wait=Micros(0))
        routes = {"upstream": Route("http://nowhere/v1")}
        return Gateway(self.desk, self.rules.models, routes, upstream, recorder, limits)

    async def _round(self) -> bool:
        """One look at the world, as the reconciler takes it; tells whether anything came of it."""
        outside, before, stopped = self.outside, self.desk.book.seq, len(self._done)
        polled = outside.executor.poll()
        assert isinstance(polled, list)
        world = World(
            {one.attempt: one for one in polled},
            {one.key: one for one in outside.sessions.poll()},
            {one.copy: one for one in outside.vault.results()},
        )
        told, acts = compare(self.desk.view().state, world)
        for observation in told:
            await self.desk.tell(observation)
        view = self.desk.view()
        for act in acts:
            if act not in self._done and still_open(act, view.state):
                for observation in self._hands.prepare(act, view)():
                    await self.desk.tell(observation)
                if isinstance(act, StopAttempt | StopSession):
                    self._done.add(act)
        return (self.desk.book.seq, len(self._done)) != (before, stopped)

    async def _settle(self, span: int) -> None:
        for step in (0, span) if span else (0,):
            self.outside.clock.move_to(self.outside.clock.now() + step)
            await self.desk.tell(Tick())
            while await self._round():
                pass

    def settle(self, span: int = 0) -> None:
        """Let the world catch up with the book until nothing moves; then let time go by, and again."""
        self.on_loop(self._settle(span))

    def tell(self, observation: Observation) -> None:
        """A fact."""
        self.on_loop(self.desk.tell(observation))

    def rule(self, request: Request) -> Receipt | Refusal:
        """Ask the desk itself, as an organiser does."""
        return self.on_loop(self.desk.ask(request))

    @property
    def now(self) -> Moment:
        """The run's clock."""
        return self.outside.clock.now()

    @property
    def state(self) -> State:
        """What is so, copied."""

        async def look() -> State:
            return self.desk.view().state.copy()

        return self.on_loop(look())

    @property
    def events(self) -> list[Event]:
        """All that was journalled."""
        return events_of(self.outside.journal.read(0, 1_000_000))

    def home(self, corner: str = "A") -> Path:
        """A corner's home."""
        return self.homes.open(corner)

    def socket(self, corner: str = "A") -> Path:
        """A corner's socket."""
        return self.folder / f"{corner}.sock"

    # What agents do

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        corner: str = "A",
        token: str | None = None,
        key: str = "",
        **headers: str,
    ) -> Answer:
        """Raw HTTP at a corner's door; a body of bytes goes as it is."""
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        told = {"Authorization": f"Bearer {TOKENS[corner] if token is None else token}", **headers}
        if key:
            told["Palestra-Request"] = key
        link = _Link(self.socket(corner))
        try:
            link.request(method, path, data, told)
            response = link.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            link.close()

    def submit(self, *argv: str, corner: str = "A", **fields: object) -> Answer:
        """A job with an hour's limit unless told otherwise."""
        return self.ask(
            "POST", "/arena/jobs", {"argv": argv or ("train",), "time": "1h", **fields}, corner=corner
        )

    def run(self, *words: str, corner: str = "A") -> Ran:
        """The real `arena` command in a corner's home, in this process."""
        out, err = io.BytesIO(), io.StringIO()
        ours = {
            "HOME": str(self.home(corner)), "PALESTRA_SOCKET": str(self.socket(corner)),
            "PALESTRA_TOKEN": TOKENS[corner], "PALESTRA_SESSION": f"{corner}-s1", "PALESTRA_PATIENCE_S": "10",
        }  # fmt: skip
        before, place = dict(os.environ), Path.cwd()
        os.environ.update(ours)
        os.chdir(self.home(corner))
        try:
            with (
                contextlib.redirect_stdout(io.TextIOWrapper(out, write_through=True)),
                contextlib.redirect_stderr(err),
            ):
                code = client.main(list(words))
                return Ran(code, out.getvalue(), err.getvalue())
        finally:
            os.chdir(place)
            os.environ.clear()
            os.environ.update(before)

    def checkpoint(self, name: str, corner: str = "A", data: bytes = b"weights") -> Path:
        """A folder with weights in a home, not sealed yet."""
        folder = self.home(corner) / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(data)
        (folder / "config.json").write_text("{}")
        return folder


class _Link(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("arena", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(str(self._path))


@contextlib.contextmanager
def serving(
    rules: Competition | None = None, behave: Callable[[AttemptSpec], Behaviour] | None = None
) -> Iterator[Arena]:
    """A served arena in its running stage, at T+0:00."""
    folder = Path(tempfile.mkdtemp(prefix="web-"))  # short: a socket's path has little room
    arena = Arena(folder, rules, behave)
    arena.start()
    try:
        yield arena
    finally:
        arena.stop()
        shutil.rmtree(folder)


def sentences(texts: Sequence[str]) -> None:
    """Each is one line that a stranger can read: no braces of Python's, no class names, no traceback."""
    for text in texts:
        assert text and "\n" not in text, text
        for odd in ("Traceback", "Error(", "<class", "object at 0x", "None", "()", "NoneType"):
            assert odd not in text, text


AT = START
