"""The organiser's door: a unix socket that only the run's owner can reach. Requests in, the desk's answers out."""

from __future__ import annotations

import os

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from palestra.referee.requests import EndRun, Pause, Resume
from palestra.report.scoreboard import scoreboard
from palestra.runtime.server import Server
from palestra.web import sheets
from palestra.web.answers import Endpoint, granted, guarded, read_body, reply, request_key, serve_routes
from palestra.web.corners import corner_verbs


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """What every organiser's verb says: who, and why."""

    by: str = "organiser"
    reason: str = ""
    leave_running: bool = False


def organiser_app(server: Server) -> ASGIApp:
    """`palestra status | pause | resume | end | stop` as an application."""

    async def status(request: Request) -> Response:
        view = server.desk.view()
        state = view.state
        waits = [
            sheets.job_sheet(view, card) | {"corner": card.corner}
            for card in view.catalog.jobs.values()
            if card.ended is None
        ]
        return reply({"scoreboard": scoreboard(state, view.catalog), "at": view.at, "alarms": state.alarms,
                      "paused": state.clock.paused, "paused_by": state.clock.paused_by, "jobs": waits, "served": True})  # fmt: skip

    async def pause(request: Request) -> Response:
        order = await read_body(request, Order)
        receipt = granted(await server.desk.ask(Pause(_actor(order), request_key(request), order.reason)))
        return reply({"done": receipt.kind})

    async def resume(request: Request) -> Response:
        order = await read_body(request, Order)
        receipt = granted(await server.desk.ask(Resume(_actor(order), request_key(request))))
        return reply({"done": receipt.kind})

    async def end(request: Request) -> Response:
        order = await read_body(request, Order)
        receipt = granted(await server.desk.ask(EndRun(_actor(order), request_key(request), order.reason)))
        return reply({"done": receipt.kind})

    async def stop(request: Request) -> Response:
        order = await read_body(request, Order)
        if not server.stop_asked.done():
            server.stop_asked.set_result("leave-running" if order.leave_running else "stop")
        return reply({"done": "stopping", "pid": os.getpid()})

    verbs: dict[str, Endpoint] = {
        "/pause": pause,
        "/resume": resume,
        "/end": end,
        "/stop": stop,
    } | corner_verbs(server)
    routes = [Route("/status", guarded(status))]
    routes += [Route(path, guarded(verb), methods=["POST"]) for path, verb in verbs.items()]
    return serve_routes(routes)


def _actor(order: Order) -> str:
    return f"organiser:{order.by[:40]}"
