"""As much of HTTP/1.1 as the model server needs, on asyncio streams: a request in, a JSON answer out, connections kept open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

LARGEST_BODY = 1 << 20
MOST_HEADER_LINES = 100


class Request(NamedTuple):
    method: str
    path: str
    body: bytes


class Response(NamedTuple):
    status: int
    body: dict[str, Any]


class HttpError(Exception):
    """A request that gets an error answer in the shape that OpenAI's clients read; `field` is the one at fault."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field

    def response(self) -> Response:
        kind = "invalid_request_error" if self.status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
        return Response(
            self.status, {"error": {"message": self.message, "type": kind, "param": self.field, "code": None}}
        )


async def converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Callable[[Request], Awaitable[Response]],
) -> None:
    """Answer requests on one connection, one after another, until the other side closes it or breaks the protocol."""
    try:
        while True:
            try:
                request, keep = await _read(reader)
            except HttpError as error:
                await _write(writer, error.response(), keep=False)
                return
            try:
                response = await answer(request)
            except HttpError as error:
                response = error.response()
            await _write(writer, response, keep)
            if not keep:
                return
    except (ConnectionError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[Request, bool]:
    parts = (await _line(reader)).split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the first line is no HTTP/1 request")
    headers: dict[str, str] = {}
    for _ in range(MOST_HEADER_LINES):
        line = await _line(reader)
        if not line:
            break
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    else:
        raise HttpError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {MOST_HEADER_LINES} header lines"
        )
    if "transfer-encoding" in headers:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "send the body with Content-Length, not in chunks")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise HttpError(HTTPStatus.BAD_REQUEST, f"Content-Length is {length!r}; it must be a number of bytes")
    if int(length) > LARGEST_BODY:
        raise HttpError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {length} bytes; at most {LARGEST_BODY} are read",
        )
    body = await reader.readexactly(int(length))
    keep = headers.get("connection", "").lower() != "close" and parts[2] != "HTTP/1.0"
    return Request(parts[0], parts[1].partition("?")[0], body), keep


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "a header line is too long") from None
    return line.decode("latin-1").rstrip("\r\n")


async def _write(writer: asyncio.StreamWriter, response: Response, keep: bool) -> None:
    body = json.dumps(response.body).encode()
    head = (
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    writer.write(head.encode("latin-1") + body)
    await writer.drain()
