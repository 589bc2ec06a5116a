"""`python -m palestra_kit.serve`: the embedded model server. Chat completions on a unix socket, many at a time in one batch.

GET /health               200 once a first real answer was generated, 503 while loading
GET /v1/models            the names that `model` may have
POST /v1/chat/completions messages, model, temperature, top_p, seed, max_tokens, stop, repetition_penalty; never streamed
The base is called `base`; an adapter or a model has the name given before `=`, else its sealed digest, else its folder's name.
Tokenizer, turn format and stop tokens are always the base's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, NoReturn

from palestra_kit.adapters import Loaded
from palestra_kit.batching import Batches
from palestra_kit.chat import Chat
from palestra_kit.completions import Completion, read_completion, write_completion
from palestra_kit.errors import KitError, exit_with
from palestra_kit.generate import Answer, Ask, Sampling, answer_batch
from palestra_kit.rows import Message
from palestra_kit.seal import sealed_digest
from palestra_kit.weights import load_base, pick_device
from palestra_kit.wire import HttpError, Request, Response, converse

LONGEST_SOCKET_PATH = 107
CACHE_BYTES = 512 << 20
CONNECTIONS_WAITING = 2_048


class Named(NamedTuple):
    name: str
    folder: Path


class Ready(NamedTuple):
    """What there is once the model has spoken."""

    chat: Chat
    names: list[str]
    default: str
    batches: Batches
    seconds: float


class Server:
    """Routes requests; until `ready` is set every one but a wrong path gets 503."""

    def __init__(self) -> None:
        self.ready: Ready | None = None
        self.answered = 0

    async def answer(self, request: Request) -> Response:
        routes = {
            "/health": ("GET", self._health),
            "/v1/models": ("GET", self._models),
            "/v1/chat/completions": ("POST", self._complete),
        }
        if request.path not in routes:
            raise HttpError(
                HTTPStatus.NOT_FOUND, f"{request.path} does not exist; there are: {', '.join(routes)}"
            )
        method, act = routes[request.path]
        if request.method != method:
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {method}, not {request.method}"
            )
        if self.ready is None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the model is loading")
        return await act(request, self.ready)

    async def _health(self, request: Request, ready: Ready) -> Response:
        return Response(
            HTTPStatus.OK,
            {"status": "ok", "models": ready.names, "seconds_to_ready": round(ready.seconds, 3)},
        )

    async def _models(self, request: Request, ready: Ready) -> Response:
        data = [{"id": name, "object": "model", "owned_by": "palestra"} for name in ready.names]
        return Response(HTTPStatus.OK, {"object": "list", "data": data})

    async def _complete(self, request: Request, ready: Ready) -> Response:
        completion = read_completion(request.body, ready.chat, ready.names, ready.default)
        try:
            answer = await ready.batches.answer(completion)
        except Exception as error:
            print(f"generating failed: {error!r}", file=sys.stderr, flush=True)
            raise HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"generating failed: {error}") from None
        self.answered += 1
        return write_completion(self.answered, completion, answer)


def load(base: Path, model: Named | None, adapters: Sequence[Named], max_rank: int, device: str) -> Loaded:
    loaded = Loaded(
        load_base(base, pick_device(device), model.folder if model else None), model.name if model else "base"
    )
    for adapter in adapters:
        loaded.add(adapter.name, adapter.folder, max_rank)
    return loaded


async def run(given: argparse.Namespace) -> None:
    started = time.monotonic()
    server, path = Server(), given.socket
    try:
        listening = await asyncio.start_unix_server(
            lambda reader, writer: converse(reader, writer, server.answer), path, backlog=CONNECTIONS_WAITING
        )
    except OSError as error:
        raise KitError(f"--socket {path} cannot be opened: {error}") from None
    path.chmod(0o600)
    ours = path.stat().st_ino
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _leave, path, ours, 0)
    try:
        ready = await asyncio.to_thread(_prepare, given)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _leave(path, ours, 2)
    async with listening:
        work = asyncio.create_task(ready.batches.work())
        hello = ready.chat.encode([Message("user", "Hello")], answer_next=True).ids
        await ready.batches.answer(Completion(ready.default, Ask(hello, 4), Sampling()))
        server.ready = ready._replace(seconds=time.monotonic() - started)
        print(f"ready in {server.ready.seconds:.1f} s on {path}: {', '.join(ready.names)}", flush=True)
        await work


def _prepare(given: argparse.Namespace) -> Ready:
    chat = Chat.load(given.base)
    loaded = load(given.base, given.model, given.adapter, given.max_rank, given.device)

    def generate(name: str, asks: Sequence[Ask], sampling: Sampling) -> list[Answer]:
        with loaded.speaking(name) as model:
            return answer_batch(model, chat, asks, sampling)

    config = loaded.model.config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token_bytes = 2 * 4 * config.num_hidden_layers * heads * width
    default = given.adapter[0].name if len(given.adapter) == 1 else loaded.own_name
    return Ready(chat, loaded.names, default, Batches(generate, CACHE_BYTES // token_bytes), 0.0)


def _leave(path: Path, ours: int, code: int) -> NoReturn:
    """At once: a batch under way is of no use to anyone, and a thread inside the model would hold up a tidy exit."""
    try:
        if path.stat().st_ino == ours:
            path.unlink()
    except OSError:
        pass
    sys.stdout.flush()
    os._exit(code)


def _refuse_busy(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise KitError(
            f"--socket {path} has {len(os.fsencode(path))} bytes; a socket's path may have {LONGEST_SOCKET_PATH}"
        )
    if not path.parent.is_dir():
        raise KitError(f"--socket: the folder {path.parent} does not exist")
    if not path.exists():
        return
    if not path.is_socket():
        raise KitError(f"--socket {path} is a file of another kind; name a new path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise KitError(f"--socket {path} is served by another process already")


def _named(text: str) -> Named:
    name, sign, folder = text.partition("=")
    if sign:
        return Named(name, Path(folder))
    return Named(sealed_digest(Path(text)) or Path(text).name, Path(text))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m palestra_kit.serve",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--base", type=Path, required=True, metavar="DIR")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--adapter",
        type=_named,
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="a LoRA adapter; repeat for several",
    )
    what.add_argument(
        "--model",
        type=_named,
        metavar="[NAME=]DIR",
        help="a full model of the base's shape, instead of the base",
    )
    add("--socket", type=Path, required=True, metavar="PATH")
    add("--max-rank", type=int, default=64, help="adapters of a higher rank are refused (default 64)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args()


def main() -> None:
    given = parse()
    _refuse_busy(given.socket)
    asyncio.run(run(given))


if __name__ == "__main__":
    exit_with(main)
