"""Opens a served run's doors: one a corner with verbs and gateway behind it, one for the organiser; closes them in order."""

from __future__ import annotations

from pathlib import Path

from palestra.events.masking import Secret
from palestra.gateway.app import Gateway, Route
from palestra.gateway.scripted import ScriptedServer
from palestra.gateway.transcript import Recorder
from palestra.gateway.upstream import HttpUpstream
from palestra.ports import StepRow
from palestra.rules.competition import Upstream
from palestra.runtime.keys import read_key
from palestra.runtime.server import Server
from palestra.web.doors import Doors
from palestra.web.entrant import Door
from palestra.web.organiser import organiser_app

DRAIN = 5.0
"""Seconds that open calls may take when the server stops."""


class OpenDoors:
    """All that is open to the outside."""

    def __init__(self) -> None:
        self.doors = Doors()
        self.entrants: list[Door] = []
        self.gateway: Gateway | None = None
        self.upstream = HttpUpstream()
        self.scripted: list[ScriptedServer] = []

    async def close(self) -> None:
        """Streams first: waiting requests are sent home, calls drain and are settled, then the sockets go."""
        for door in self.entrants:
            door.close()
        if self.gateway is not None:
            await self.gateway.drain(DRAIN)
        await self.doors.close()
        await self.upstream.close()
        for scripted in self.scripted:
            await scripted.stop()


async def open_doors(server: Server) -> OpenDoors:
    """Sockets open last, when everything behind them works."""
    made = OpenDoors()
    routes = {one.name: await _route(server, made, one) for one in server.rules.upstreams}
    made.gateway = Gateway(server.desk, server.rules.models, routes, made.upstream, _recorder(server))
    server.desk.published.append(
        lambda rows: made.gateway.wake() if made.gateway and _may_free(rows) else None
    )
    gateway = made.gateway
    terms = (server.folder.competition / "terms.md").read_text()

    async def open_corner(corner: str) -> None:
        home = server.folder.homes / corner / "home"
        door = Door(corner, server.seats.tokens, server.desk, server.executor, home, terms)
        made.entrants.append(door)
        await made.doors.open(server.folder.corner_socket(corner), door.app(gateway))

    for corner in list(server.seats.sockets):
        await open_corner(corner)
    server.corner_opened = open_corner
    await made.doors.open(server.folder.control_socket, organiser_app(server))
    return made


def upstream_keys(server: Server) -> list[Secret]:
    """Real keys, which no public byte may hold."""
    folder = Path(server.folder.read().source).parent
    keys = (read_key(rule, folder) for rule in server.rules.upstreams if not rule.playbooks)
    return [Secret(key) for key in keys if key]


def _may_free(rows: object) -> bool:
    assert isinstance(rows, tuple)
    return any(row.kind in ("Resumed", "ChargeCorrected") for row in rows)


async def _route(server: Server, made: OpenDoors, rule: Upstream) -> Route:
    """Where an upstream is, with its real key; a playbook's upstream is served here, on a socket of its own."""
    if not rule.playbooks:
        return Route(rule.url, read_key(rule, Path(server.folder.read().source).parent))
    socket = server.folder.sockets() / f"scripted-{rule.name[:20]}.sock"
    folder = server.folder.competition / "playbooks" / rule.name
    socket.unlink(missing_ok=True)
    scripted = ScriptedServer(folder)
    made.scripted.append(scripted)
    return Route(await scripted.start(unix=socket))


def _recorder(server: Server) -> Recorder:
    """Steps go on after the last one on the record, and messages that are there aren't numbered again."""
    recorder = Recorder(server.desk, server.clock)
    recorder.reload(_steps(server), lambda digest: server.writer.blob(digest).result())
    return recorder


def _steps(server: Server) -> list[StepRow]:
    rows: list[StepRow] = []
    for corner in server.seats.tokens:
        after = 0
        while page := server.writer.steps(corner, after).result():
            rows += page
            after = page[-1].n
    return rows
