"""The two ends of the gateway's measurement: an upstream that costs almost nothing, and clients that only count and time.

Each runs as a process of its own: `_gateway_ends.py upstream`, `_gateway_ends.py load ...`. Both are raw asyncio, so that
what is measured is what stands between them. The upstream keeps a tally of the tokens it has answered with in full.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any, ClassVar, cast

import uvloop

DELTAS = 50
PROMPT = 900  # tokens that every answer claims to have read
_CAP = re.compile(rb'"max_(?:completion_)?tokens":\s*(\d+)')
_LENGTH = re.compile(rb"\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"


class Exchange(asyncio.Protocol):
    """One side of an HTTP/1.1 connection that is kept: whole messages are handed to `take(head, body)`."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (cut := self._data.find(b"\r\n\r\n")) >= 0:
            head, rest = self._data[:cut], self._data[cut + 4 :]
            told = _LENGTH.search(head)
            if told is None and b"chunked" in head:
                if not rest.endswith(b"0\r\n\r\n"):
                    return
                size = len(rest)
            else:
                size = int(told[1]) if told else 0
            if len(rest) < size:
                return
            self._data = rest[size:]
            self.take(head, rest[:size])

    def take(self, head: bytes, body: bytes) -> None:
        raise NotImplementedError


class Upstream(Exchange):
    """Answers at once: a fixed JSON body, or a stream of 50 deltas in one write."""

    tally: ClassVar[dict[str, int]] = {"calls": 0, "prompt": 0, "completion": 0}

    def take(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /tally"):
            self._send(b"application/json", json.dumps(self.tally).encode())
            return
        cap = _CAP.search(body)
        tokens = min(int(cap[1]), DELTAS) if cap else DELTAS
        self.tally["calls"] += 1
        self.tally["prompt"] += PROMPT
        self.tally["completion"] += tokens
        if b'"stream":true' in body or b'"stream": true' in body:
            self._send(b"text/event-stream", stream_of(tokens))
        else:
            self._send(b"application/json", whole_of(tokens))

    def _send(self, kind: bytes, body: bytes) -> None:
        self.transport.write(_HEAD % (kind, len(body)) + body)


def usage_of(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": PROMPT, "completion_tokens": tokens, "total_tokens": PROMPT + tokens}


def whole_of(tokens: int) -> bytes:
    message = {"role": "assistant", "content": "word " * tokens}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "real-name-1"}
    return json.dumps({**head, "choices": [choice], "usage": usage_of(tokens)}).encode()


def stream_of(tokens: int) -> bytes:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "real-name-1"}
    deltas: list[dict[str, Any]] = [{"delta": {"content": "word "}, "finish_reason": None}] * tokens
    choices = [[{"index": 0, **delta}] for delta in [*deltas, {"delta": {}, "finish_reason": "stop"}]]
    chunks = [{**head, "choices": choice} for choice in choices]
    chunks.append({**head, "choices": [], "usage": usage_of(tokens)})
    return (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    )


class Client(Exchange):
    """One connection that asks again as soon as it is answered, until the time is over."""

    def __init__(self, request: bytes, over: float, times: list[float], statuses: dict[str, int]) -> None:
        super().__init__()
        self._request, self._over, self._times, self._statuses = request, over, times, statuses
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self) -> None:
        self._since = time.perf_counter()
        self.transport.write(self._request)

    def take(self, head: bytes, body: bytes) -> None:
        now = time.perf_counter()
        status = head[9:12].decode()
        self._statuses[status] = self._statuses.get(status, 0) + 1
        if status == "200":
            self._times.append(now - self._since)
        if now < self._over:
            self.ask()
        else:
            self.finish()

    def connection_lost(self, error: Exception | None) -> None:
        self.finish()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, connections: int, seconds: float, request: bytes) -> dict[str, Any]:
    """Ask for so long; what counts is what was answered by then."""
    times: list[float] = []
    statuses: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: Client(request, start + seconds, times, statuses), "127.0.0.1", port
        )
        clients.append(client)
        client.ask()
    await asyncio.wait([client.done for client in clients], timeout=seconds + 20)
    took = time.perf_counter() - start
    for client in clients:
        client.transport.abort()
    return {"times": sorted(times), "statuses": statuses, "seconds": took}


async def hang_up(port: int, calls: int, connections: int, request: bytes) -> None:
    """So many streams; every second one is left after its first bytes."""
    left = iter(range(calls))

    async def one() -> None:
        for number in left:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request.replace(b"keep-alive", b"close"))
            await (reader.read(100) if number % 2 else reader.read(-1))
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(connections)))


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    what, *args = sys.argv[1:]
    if what == "upstream":
        uvloop.run(serve())
    elif what == "load":
        port, connections, seconds = int(args[0]), int(args[1]), float(args[2])
        print(json.dumps(uvloop.run(load(port, connections, seconds, sys.stdin.buffer.read()))))
    elif what == "hang-up":
        port, connections, calls = int(args[0]), int(args[1]), int(args[2])
        uvloop.run(hang_up(port, calls, connections, sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
