"""JSON answers and errors that both doors share: structs in, HTTP responses out; no traceback ever leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from palestra.referee.requests import Receipt
from palestra.rules.errors import BadInput, Broken, PalestraError, Refusal

LONGEST_BODY = 4 << 20
"""Bytes of a verb's body; scripts are at most 1 MiB of it."""
_KEY_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


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
                {"error": Fault(error.code, error.message, error.subject, facts=error.facts)}, status
            )
        case BadInput():
            return reply({"error": Fault("bad_input", str(error), error.field, error.value)}, 422)
        case Broken():
            return reply({"error": Fault("broken", str(error))}, 503)
    return reply({"error": Fault("failed", str(error))}, 500)


def guarded(endpoint: Endpoint) -> Endpoint:
    """Every PalestraError becomes its answer."""

    async def guard(request: Request) -> Response:
        try:
            return await endpoint(request)
        except PalestraError as error:
            return fail(error)

    return guard


def granted(answer: Receipt | Refusal) -> Receipt:
    """The receipt, or the refusal raised."""
    if isinstance(answer, Refusal):
        raise answer
    return answer


async def read_body(request: Request, kind: type[T]) -> T:
    """A JSON body as a struct; `BadInput` names the field that can't be read."""
    if int(request.headers.get("content-length") or 0) > LONGEST_BODY:
        raise BadInput("body", request.headers["content-length"], f"at most {LONGEST_BODY} bytes")
    data = await request.body()
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise BadInput(place.rstrip("`").lstrip(".") or "body", message, "see `arena rules`") from None
    except msgspec.DecodeError as error:
        raise BadInput("body", data[:80].decode("utf-8", "replace"), f"JSON: {error}") from None


def request_key(request: Request) -> str | None:
    """The client's own key of a changing verb."""
    key = request.headers.get("palestra-request")
    if key is not None and not (8 <= len(key) <= 64 and set(key) <= _KEY_CHARS):
        raise BadInput("Palestra-Request", key, "8 to 64 letters, digits, '_' or '-'")
    return key
