"""JSON answers and errors that both doors share: structs in, HTTP responses out; no traceback ever leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from palestra.events.base import clip
from palestra.referee.requests import Receipt
from palestra.rules.errors import BadInput, Broken, PalestraError, Refusal
from palestra.rules.units import show_size
from palestra.web.bodies import read_object, say_misfit

LONGEST_BODY = 4 << 20
"""Bytes of a verb's body; scripts are at most 1 MiB of it."""
LONGEST_VALUE = 200
"""Characters of a value that an answer repeats."""
_KEY_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

STOPPING = Broken("the arena's server is stopping; ask again")

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("palestra.web")


class Fault(msgspec.Struct, omit_defaults=True):
    """What went wrong, for people and for programs."""

    code: str
    message: str
    field: str = ""
    value: str = ""
    facts: dict[str, str | int] = {}


def reply(content: object, status: int = 200) -> Response:
    """A struct or builtins as JSON."""
    return Response(msgspec.json.encode(content) + b"\n", status, media_type="application/json")


def fail(error: PalestraError) -> Response:
    """409 for a refusal, 404 for an unknown id, 422 for bad input, 503 for a broken world."""
    match error:
        case Refusal():
            status = 404 if error.code.startswith("no_such") else 409
            return reply(
                {"error": Fault(error.code, clip(error.message), clip(error.subject), facts=error.facts)},
                status,
            )
        case BadInput():
            if len(error.value) > LONGEST_VALUE:
                error = BadInput(error.field, error.value[: LONGEST_VALUE - 4] + " ...", error.right)
            return reply({"error": Fault("bad_input", clip(str(error)), clip(error.field), error.value)}, 422)
        case Broken():
            return reply({"error": Fault("broken", str(error))}, 503)
    return reply({"error": Fault("failed", str(error))}, 500)


def guarded(endpoint: Endpoint) -> Endpoint:
    """Every error becomes its answer."""

    async def guard(request: Request) -> Response:
        try:
            return await endpoint(request)
        except PalestraError as error:
            return fail(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:  # only a door that closes cuts a request
            return fail(STOPPING)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            told = "the arena failed on this request; its organiser can see why"
            return reply({"error": Fault("failed", told)}, 500)

    return guard


def serve_routes(routes: Sequence[BaseRoute]) -> Starlette:
    """An application whose every answer is JSON, also where there is no such path or method."""

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = f"{request.method} {request.url.path[:200]}"
        if error.status_code == 405:
            return reply(
                {"error": Fault("unknown_method", f"{said}: this path doesn't take that method")}, 405
            )
        return reply({"error": Fault("unknown_path", f"{said}: there is nothing at this path")}, 404)

    return Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})


def granted(answer: Receipt | Refusal) -> Receipt:
    """The receipt, or the refusal raised."""
    if isinstance(answer, Refusal):
        raise answer
    return answer


async def read_body(request: Request, kind: type[T]) -> T:
    """A JSON body as a struct; `BadInput` names the field, its value and what would be right."""
    raw = read_object(await _take_body(request))
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise say_misfit(str(error), raw, kind) from None


async def _take_body(request: Request) -> bytes:
    """The body, of which no more is taken than allowed, whatever its header says."""
    right = f"a body has at most {show_size(LONGEST_BODY)}"
    if int(request.headers.get("content-length") or 0) > LONGEST_BODY:
        raise BadInput("body", f"{request.headers['content-length']} bytes", right)
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LONGEST_BODY:
            raise BadInput("body", f"more than {LONGEST_BODY} bytes", right)
    return bytes(data)


def request_key(request: Request) -> str | None:
    """The client's own key of a changing verb."""
    key = request.headers.get("palestra-request")
    if key is not None and not (8 <= len(key) <= 64 and set(key) <= _KEY_CHARS):
        raise BadInput("Palestra-Request", key, "a request key has 8 to 64 letters, digits, '_' or '-'")
    return key
