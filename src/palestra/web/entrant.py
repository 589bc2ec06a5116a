"""The entrant's door: what `arena` and agents call over their corner's socket. Requests in, the desk's answers out."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from palestra.events.jobs import JobSpec
from palestra.ports import Executor
from palestra.referee.requests import CancelJob, Finish, Nominate, SealCheckpoint, SubmitJob
from palestra.rules.errors import BadInput, Refusal
from palestra.rules.manifest import artifact_digest, identity_bytes
from palestra.rules.quantities import read_duration, read_size
from palestra.rules.units import Bytes, show_dollars, show_duration, show_gpu_time, show_size
from palestra.runtime.desk import Desk
from palestra.state.accounts import API, GPU
from palestra.state.catalog import JobCard
from palestra.web import sheets
from palestra.web.answers import (
    STOPPING,
    Endpoint,
    granted,
    guarded,
    read_body,
    reply,
    request_key,
    serve_routes,
)
from palestra.web.forms import FinishForm, JobForm, NominationForm, PathForm
from palestra.web.places import find_inside, read_sealed

LONGEST_WAIT = 60.0
"""Seconds that one long poll may take."""
LONGEST_SCRIPT = 1 << 20
LONGEST_COMMAND = 8 << 10
"""Bytes of a job's argv, cwd and outputs together: they stand in the journal."""
MOST_OUTPUTS = 32
LOG_TAIL = 16_384
FARTHEST = 1 << 62
"""No log is longer: an offset beyond is as good as this one."""


NOTED = frozenset({"time", "memory", "gpus", "argv", "script", "cwd", "outputs", "path", "settings"})
"""Fields by which a no is told apart on the record; names that a client makes up aren't among them."""


class Logs(Protocol):
    """Where jobs' output is read; the executor is one."""

    def log(self, attempt: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes: ...


class Door:
    """One corner's door. Its token is checked on every request; another corner's is useless here."""

    def __init__(
        self, corner: str, tokens: Mapping[str, str], desk: Desk, executor: Executor, home: Path, terms: str
    ) -> None:
        self.corner = corner
        self.desk = desk
        self._tokens = tokens
        self._logs: Logs = executor
        self._home = home
        self._terms = terms
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Send those home who wait for something: the server is about to go."""
        self._closing.set()

    def app(self, gateway: ASGIApp) -> ASGIApp:
        """The arena's verbs, and the gateway to models beside them."""
        routes = [
            Route("/status", self._verb(self.status)),
            Route("/rules", self._verb(self.rules)),
            Route("/jobs", self._verb(self.jobs), methods=["GET"]),
            Route("/jobs", self._verb(self.submit), methods=["POST"]),
            Route("/jobs/{job}", self._verb(self.job)),
            Route("/jobs/{job}/log", self._verb(self.log)),
            Route("/jobs/{job}/cancel", self._verb(self.cancel), methods=["POST"]),
            Route("/seals", self._verb(self.seal), methods=["POST"]),
            Route("/nominations", self._verb(self.nominations), methods=["GET"]),
            Route("/nominations", self._verb(self.nominate), methods=["POST"]),
            Route("/nominations/{nomination}", self._verb(self.nomination)),
            Route("/finish", self._verb(self.finish), methods=["POST"]),
        ]
        verbs = serve_routes([Mount("/arena", routes=routes)])

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            if not self._admits(scope):
                denied = reply(
                    {
                        "error": {
                            "code": "unknown_token",
                            "message": "this door opens to its corner's own token only",
                        }
                    },
                    401,
                )
                await denied(scope, receive, send)
            elif scope["path"].startswith("/arena/"):
                await verbs(scope, receive, send)
            else:
                scope["palestra.corner"] = self.corner
                await gateway(scope, receive, send)

        return serve

    def _verb(self, endpoint: Endpoint) -> Endpoint:
        """What can't be read is a no like any other, so it goes on the record too (S50)."""

        async def noted(request: Request) -> Response:
            try:
                return await endpoint(request)
            except BadInput as error:
                about = error.field if error.field in NOTED else "request"
                await self.desk.note(self.corner, Refusal("bad_input", str(error), subject=about))
                raise

        return guarded(noted)

    def _admits(self, scope: Scope) -> bool:
        wanted = self._tokens[self.corner].encode()
        for name, value in scope["headers"]:
            given = (
                value.removeprefix(b"Bearer ")
                if name == b"authorization"
                else value
                if name == b"x-api-key"
                else None
            )
            if given is not None and hmac.compare_digest(given, wanted):
                return True
        return False

    async def status(self, request: Request) -> Response:
        return reply(sheets.status(self.desk.view(), self.corner))

    async def rules(self, request: Request) -> Response:
        return PlainTextResponse(sheets.rules_page(self.desk.view(), self._terms), media_type="text/markdown")

    async def jobs(self, request: Request) -> Response:
        view = self.desk.view()
        mine = [card for card in view.catalog.jobs.values() if card.corner == self.corner]
        return reply({"jobs": [sheets.job_sheet(view, card, await self._tail(card)) for card in mine]})

    async def job(self, request: Request) -> Response:
        card = self._card(request)
        await self._wait(request, lambda: self._card(request).ended is not None)
        card = self._card(request)
        return reply(sheets.job_sheet(self.desk.view(), card, await self._tail(card)))

    async def submit(self, request: Request) -> Response:
        form = await read_body(request, JobForm)
        spec = self._spec(form)
        session = request.headers.get("palestra-session", "")[:32]
        receipt = granted(await self.desk.ask(SubmitJob(self.corner, request_key(request), spec, session)))
        view = self.desk.view()
        ends = f"would end {sheets.t(view.state, view.at + spec.limit)} if it started now"
        understood = {
            "time": f"{show_duration(spec.limit)}, {ends}",
            "memory": show_size(spec.memory),
            "gpus": spec.gpus,
        }
        card = view.catalog.jobs[receipt.id]
        sheet = sheets.job_sheet(view, card)
        return reply(
            {"job": receipt.id, "understood": understood, "state": sheet["state"], "wait": sheet["wait"]}, 201
        )

    def _spec(self, form: JobForm) -> JobSpec:
        if len(form.outputs) > MOST_OUTPUTS:
            raise BadInput(
                "outputs", f"{len(form.outputs)} paths", f"at most {MOST_OUTPUTS}; name a folder instead"
            )
        spoken = sum(len(word.encode()) for word in (*form.argv, form.cwd, *form.outputs))
        if spoken > LONGEST_COMMAND:
            right = f"at most {show_size(LONGEST_COMMAND)} together; put what is long into a script"
            raise BadInput("argv", f"{spoken} bytes with cwd and outputs", right)
        if not form.argv or not form.argv[0]:
            raise BadInput("argv", form.argv, "write the command as a list of texts, the program first")
        memory = self.desk.view().state.rules.jobs.memory_per_gpu * form.gpus
        if form.memory is not None:
            memory = read_size(form.memory, "memory")
        if form.time is None:
            right = "every job needs a time limit with its unit, for example 90m; there is no default"
            raise BadInput("time", "", right)
        script = None
        if form.script is not None:
            if len(form.script.encode()) > LONGEST_SCRIPT:
                right = f"a script has at most {show_size(LONGEST_SCRIPT)}; put the rest into files"
                raise BadInput("script", f"{len(form.script)} characters", right)
            script = self.desk.keep(form.script.encode())
        find_inside(self._home, "cwd", form.cwd)
        for path in form.outputs:
            find_inside(self._home, "outputs", path, form.cwd)
        return JobSpec(
            name=(form.name or Path(form.argv[0]).name)[:80],
            argv=tuple(form.argv),
            script=script,
            gpus=form.gpus,
            memory=Bytes(memory),
            limit=read_duration(form.time, "time"),
            cwd=form.cwd,
            outputs=tuple(form.outputs),
        )

    async def cancel(self, request: Request) -> Response:
        card = self._card(request)
        granted(await self.desk.ask(CancelJob(self.corner, request_key(request), card.job)))
        return reply(
            {"job": card.job, "state": sheets.job_sheet(self.desk.view(), self._card(request))["state"]}
        )

    async def log(self, request: Request) -> Response:
        card = self._card(request)
        query = request.query_params
        asked = query.get("stream", "out")
        if asked not in ("out", "err"):
            raise BadInput("stream", asked, "there are two: out and err")
        stream: Literal["out", "err"] = "err" if asked == "err" else "out"
        offset = max(-FARTHEST, min(self._number(query.get("offset", "0"), "offset"), FARTHEST))
        limit = self._number(query.get("limit", "65536"), "limit")
        if not card.attempts:
            raise Refusal(
                "not_started", f"{card.job} has not started, so it has no output yet", subject=card.job
            )
        attempt = card.attempts[-1].attempt
        data = await asyncio.to_thread(self._logs.log, attempt, stream, offset, max(0, min(limit, 1 << 20)))
        following = {} if offset < 0 else {"palestra-next-offset": str(offset + len(data))}
        return Response(data, media_type="application/octet-stream", headers=following)

    async def seal(self, request: Request) -> Response:
        form = await read_body(request, PathForm)
        manifest, path = await read_sealed(self._home, form.path)
        digest = artifact_digest(manifest)
        asked = SealCheckpoint(
            self.corner,
            request_key(request),
            digest,
            path,
            Bytes(manifest.size),
            len(manifest.files),
            manifest.facts.step,
        )
        receipt = granted(await self.desk.ask(asked))
        return reply(
            {
                "checkpoint": receipt.id,
                "artifact": digest,
                "size": manifest.size,
                "files": len(manifest.files),
            },
            201,
        )

    async def nominate(self, request: Request) -> Response:
        form = await read_body(request, NominationForm)
        manifest, path = await read_sealed(self._home, form.path)
        self.desk.keep(identity_bytes(manifest))
        asked = Nominate(
            self.corner, request_key(request), artifact_digest(manifest), path, Bytes(manifest.size), form.settings,
            form.label, form.note, manifest.facts.step,
        )  # fmt: skip
        receipt = granted(await self.desk.ask(asked))
        view = self.desk.view()
        return reply({"nomination": receipt.id, "state": view.catalog.nominations[receipt.id].state}, 201)

    async def nominations(self, request: Request) -> Response:
        view = self.desk.view()
        mine = [card for card in view.catalog.nominations.values() if card.corner == self.corner]
        return reply({"nominations": [sheets.nomination_sheet(view, card) for card in mine]})

    async def nomination(self, request: Request) -> Response:
        name = request.path_params["nomination"]

        def find() -> sheets.Sheet:
            view = self.desk.view()
            card = view.catalog.nominations.get(name)
            if card is None or card.corner != self.corner:
                raise Refusal("no_such_nomination", f"you have no nomination {name!r}", subject=name)
            return sheets.nomination_sheet(view, card)

        await self._wait(request, lambda: find()["state"] in ("accepted", "rejected", "withdrawn"))
        return reply(find())

    async def finish(self, request: Request) -> Response:
        form = await read_body(request, FinishForm)
        key = request_key(request)
        view = self.desk.view()
        if not form.confirm and view.state.corners[self.corner].finished is None:
            raise Refusal("confirm_finish", self._what_is_left())
        granted(await self.desk.ask(Finish(self.corner, key, form.note)))
        state = self.desk.view().state
        return reply({"finished_t": sheets.t(state, state.corners[self.corner].finished)})

    def _what_is_left(self) -> str:
        """What finishing gives up, and what would be judged (S45)."""
        view = self.desk.view()
        state = view.state
        seat = state.corners[self.corner]
        api, gpu = state.accounts[self.corner, API].left, state.accounts[self.corner, GPU].left
        pending = [
            one.nomination
            for one in state.nominations.values()
            if one.corner == self.corner and one.state != "accepted"
        ]
        judged = f"{seat.current} is judged" if seat.current else "you have NO current nomination"
        if pending:
            judged += f" ({', '.join(pending)} still copied and checked after that)"
        time = "time" if state.clock.paused else "no time"
        left = sheets.status(view, self.corner)["left"] or time
        return f"finishing is final: {left}, {show_dollars(api)} and {show_gpu_time(gpu)} are left unused; {judged}"

    def _card(self, request: Request) -> JobCard:
        name = request.path_params["job"]
        card = self.desk.view().catalog.jobs.get(name)
        if card is None or card.corner != self.corner:
            raise Refusal("no_such_job", f"you have no job {name!r}", subject=name)
        return card

    async def _tail(self, card: JobCard) -> bytes:
        if not card.attempts or card.ended is not None:
            return b""
        return await asyncio.to_thread(self._logs.log, card.attempts[-1].attempt, "out", -LOG_TAIL, LOG_TAIL)

    async def _wait(self, request: Request, done: Callable[[], bool]) -> None:
        """Long poll: until `done()`, or for `?wait=` seconds."""
        wait = request.query_params.get("wait")
        if wait is None:
            return
        seconds = min(LONGEST_WAIT, max(0, self._number(wait, "wait")))
        waiting = asyncio.create_task(self.desk.until(done, seconds))
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait((waiting, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            waiting.cancel()
        if not waiting.done():
            raise STOPPING
        waiting.result()

    @staticmethod
    def _number(text: str, field: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise BadInput(field, text, "write a whole number") from None
