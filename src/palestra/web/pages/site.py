"""The public site of one run as an application: requests in; pages, the tick, the live stream and static files out. Only reads.

A page is rendered at most once for each row of the journal and second, however many look at it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from palestra.events.masking import Secret
from palestra.runtime.server import Server
from palestra.web.pages import skin
from palestra.web.pages.agent import agent
from palestra.web.pages.job import job_page, log_tail, script_text
from palestra.web.pages.masthead import masthead
from palestra.web.pages.overview import overview
from palestra.web.pages.ring import CLIENTS, Ring
from palestra.web.pages.source import STREAMS, ServedRun, Source
from palestra.web.pages.steps import PER_PAGE, read_steps
from palestra.web.pages.tick import tick

TICKS = 14
"""Events on the first page."""
GLANCE = 6
"""Steps on an agent's page."""
KEPT_PAGES = 64
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; font-src 'self'; "
        b"img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""On every answer. Style attributes hold figures of ours only: widths of bars."""


class _Kept(msgspec.Struct, frozen=True):
    mark: str
    plain: bytes
    packed: bytes


def site_app(server: Server, more_secrets: Callable[[], Iterable[Secret]] = tuple) -> Site:
    """The site of a served run. `more_secrets`: what else must never be shown, such as upstreams' keys."""
    return Site(ServedRun(server, more_secrets))


class Site:
    """An ASGI application. `begin` before the first request, `close` ends all streams."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.ring = Ring(source)
        self._static = skin.load_static()
        self._templates = skin.load_templates(self._static)
        self._kept: dict[str, _Kept] = {}
        routes = [
            Route("/", self._overview),
            Route("/agents/{corner}", self._agent),
            Route("/agents/{corner}/steps", self._steps),
            Route("/jobs/{job}", self._job),
            Route("/tick.json", self._tick),
            Route("/stream", self._stream),
            Route("/static/{name:path}", self._file),
        ]
        self._app = Starlette(routes=routes, exception_handlers={404: self._missing, 405: self._missing})

    async def begin(self) -> None:
        """Take in what happened lately, and follow the journal."""
        await self.ring.fill()

    def close(self) -> None:
        """End every stream; pages are served until the socket goes."""
        self.ring.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_guarded)

    # Pages

    async def _overview(self, request: Request) -> Response:
        async def render() -> str:
            page = overview(self._source, self.ring.latest(TICKS))
            return self._render("overview.html", page=page)

        return await self._page(request, render)

    async def _agent(self, request: Request) -> Response:
        corner = request.path_params["corner"]
        if corner not in self._source.view().state.corners:
            raise HTTPException(404, "There is no such corner here.")
        every_job = request.query_params.get("jobs") == "all"

        async def render() -> str:
            page = agent(self._source, corner, every_job)
            steps = await read_steps(self._source, corner, max(0, page.steps - GLANCE), 2 * GLANCE)
            logs = await self._logs(corner)
            return self._render("agent.html", page=page, steps=steps[-GLANCE:], logs=logs)

        return await self._page(request, render)

    async def _logs(self, corner: str) -> list[tuple[str, Any]]:
        """The last lines of what runs, else of what ran last."""
        cards = [
            card
            for card in self._source.view().catalog.jobs.values()
            if card.corner == corner and card.attempts
        ]
        shown = [card for card in cards if card.ended is None][-4:] or cards[-1:]
        tails = []
        for card in shown:
            attempt = card.attempts[-1].attempt
            both = [
                await log_tail(self._source, attempt, stream, card.ended is None, 3_000) for stream in STREAMS
            ]
            tails += [(attempt, one) for one in both if one][-1:]
        return tails

    async def _steps(self, request: Request) -> Response:
        corner = request.path_params["corner"]
        view = self._source.view()
        if corner not in view.state.corners:
            raise HTTPException(404, "There is no such corner here.")
        total = view.catalog.tallies[corner].steps if corner in view.catalog.tallies else 0
        latest = max(0, total - PER_PAGE)
        asked = request.query_params.get("from", "")
        first = int(asked) if asked.isdecimal() and len(asked) < 12 else latest + 1
        after = max(0, min(first - 1, max(0, total - 1)))

        async def render() -> str:
            steps = await read_steps(self._source, corner, after, PER_PAGE)
            head = masthead(self._source)
            links = {
                "total": max(total, steps[-1].n if steps else 0),
                "earlier": max(1, after + 1 - PER_PAGE),
                "after": after,
            }
            return self._render(
                "steps.html", page={"head": head}, corner=corner, steps=steps, links=links, per_page=PER_PAGE
            )

        return await self._page(request, render)

    async def _job(self, request: Request) -> Response:
        job = request.path_params["job"]
        card = self._source.view().catalog.jobs.get(job)
        if card is None:
            raise HTTPException(404, "There is no such job here.")

        async def render() -> str:
            page = job_page(self._source, job)
            logs = []
            if not page.house and page.attempts:
                attempt = page.attempts[0].attempt
                growing = page.state == "run"
                logs = [
                    (stream, await log_tail(self._source, attempt, stream, growing)) for stream in STREAMS
                ]
            script = await script_text(self._source, page.script) if page.script else None
            return self._render("job.html", page=page, logs=logs, script=script)

        return await self._page(request, render)

    async def _missing(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = (
            error.detail
            if error.status_code == 404 and error.detail != "Not Found"
            else "There is nothing at this address."
        )
        html = self._render("missing.html", page={"head": masthead(self._source)}, said=said)
        return Response(
            html, error.status_code, media_type="text/html", headers={"cache-control": "no-store"}
        )

    def _render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)

    async def _page(self, request: Request, render: Callable[[], Any]) -> Response:
        """From the last rendering of this instant, or a new one; as little on the wire as can be."""
        view = self._source.view()
        name, mark = (
            f"{request.url.path}?{request.url.query[:80]}",
            f'"{view.state.seq}-{view.at // 1_000_000}"',
        )
        headers = {"cache-control": "no-cache", "etag": mark, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        kept = self._kept.pop(name, None)
        if kept is None or kept.mark != mark:
            plain = (await render()).encode("utf-8", "replace")
            kept = _Kept(mark, plain, gzip.compress(plain, 5))
        self._kept[name] = kept
        while len(self._kept) > KEPT_PAGES:
            del self._kept[next(iter(self._kept))]
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                kept.packed, media_type="text/html", headers={**headers, "content-encoding": "gzip"}
            )
        return Response(kept.plain, media_type="text/html", headers=headers)

    # Live

    async def _tick(self, request: Request) -> Response:
        body = msgspec.json.encode(tick(self._source))
        headers = {"cache-control": "max-age=1, stale-while-revalidate=5"}
        return Response(body, media_type="application/json", headers=headers)

    async def _stream(self, request: Request) -> Response:
        if self.ring.closed or self.ring.clients >= CLIENTS:
            return Response(
                status_code=204
            )  # what tells an EventSource to give up; the page polls the tick then
        given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        seen = int(given) if given.isdecimal() and len(given) < 16 else None
        if given and seen is None:
            seen = -1
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.ring.stream(seen), media_type="text/event-stream", headers=headers)

    async def _file(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        marked = request.query_params.get("v") == found.mark
        age = "max-age=31536000, immutable" if marked else "max-age=3600"
        return Response(found.data, media_type=found.media_type, headers={"cache-control": age})
