"""The organiser's verbs on entrants: join, leave, a new token, a new start. What a corner needs is there before it is asked for."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from palestra.agents import find_harness
from palestra.referee.entrants import next_corner
from palestra.referee.requests import AddEntrant, RemoveEntrant, RestartEntrant, RotateToken
from palestra.rules.errors import BadInput
from palestra.rules.quantities import read_duration
from palestra.rules.units import Moment
from palestra.runtime.seats import seal_late_name
from palestra.runtime.server import Server
from palestra.web.answers import Endpoint, granted, read_body, reply, request_key

LONGEST_NAME = 80


class Joining(msgspec.Struct, forbid_unknown_fields=True):
    """`palestra entrant add`."""

    name: str
    by: str = "organiser"
    lab: str = ""
    alias: str = ""
    harness: str = "house"
    model: str = ""
    command: tuple[str, ...] = ()
    starts_in: str = ""


class Word(msgspec.Struct, forbid_unknown_fields=True):
    """What the other verbs say."""

    by: str = "organiser"
    reason: str = ""


def corner_verbs(server: Server) -> dict[str, Endpoint]:
    """Paths and what answers them."""

    async def add(request: Request) -> Response:
        form = await read_body(request, Joining)
        _check(form)
        starts = server.clock.now() + (read_duration(form.starts_in, "starts_in") if form.starts_in else 0)
        sealed = seal_late_name(server.folder, form.alias, form.name, form.lab) if form.alias else ""
        asked = AddEntrant(
            actor=f"organiser:{form.by[:40]}",
            key=request_key(request),
            name=form.alias or form.name,
            lab="" if form.alias else form.lab,
            harness=form.harness,
            model=form.model,
            starts=Moment(starts),
            command=form.command,
            sealed_name=sealed,
        )
        free = next_corner(server.desk.view().state)
        if free and free not in server.seats.sockets:  # all is ready before the agent can be started
            server.seats.take(free)
            await server.corner_opened(free)
        receipt = granted(await server.desk.ask(asked))
        return reply({"corner": receipt.id, "name": asked.name, "starts": starts}, 201)

    async def rotate(request: Request) -> Response:
        word = await read_body(request, Word)
        corner = request.path_params["corner"]
        receipt = granted(await server.desk.ask(RotateToken(_actor(word), request_key(request), corner)))
        if not receipt.repeated:
            server.seats.rotate(corner)
        return reply({"done": "rotated", "corner": corner})

    async def restart(request: Request) -> Response:
        word = await read_body(request, Word)
        corner = request.path_params["corner"]
        granted(
            await server.desk.ask(RestartEntrant(_actor(word), request_key(request), corner, word.reason))
        )
        return reply({"done": "restarting", "corner": corner})

    async def remove(request: Request) -> Response:
        word = await read_body(request, Word)
        corner = request.path_params["corner"]
        granted(await server.desk.ask(RemoveEntrant(_actor(word), request_key(request), corner, word.reason)))
        return reply({"done": "removed", "corner": corner})

    return {
        "/entrants": add,
        "/entrants/{corner}/rotate-token": rotate,
        "/entrants/{corner}/restart": restart,
        "/entrants/{corner}/remove": remove,
    }


def _actor(word: Word) -> str:
    return f"organiser:{word.by[:40]}"


def _check(form: Joining) -> None:
    """What can be told without the referee."""
    for field, text in (("name", form.name), ("lab", form.lab), ("alias", form.alias)):
        if len(text) > LONGEST_NAME or any(ord(char) < 32 for char in text):
            raise BadInput(field, text[:LONGEST_NAME], f"plain text of at most {LONGEST_NAME} characters")
    if not form.name.strip():
        raise BadInput("name", form.name, "the entrant's name")
    find_harness(form.harness)
    if form.harness == "command" and not form.command:
        raise BadInput("command", "", "the program to start and its arguments")
