"""The scripted upstream, a public fake: chat completions in, a playbook's next turn out, with usage, streaming, latency and faults.

    python -m palestra.gateway.scripted --playbooks DIR [--host 127.0.0.1] [--port 0] [--unix PATH]

It plays `DIR/NAME.toml` for the model NAME, needs no key, and any OpenAI client can talk to it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aiohttp import web

from palestra.gateway.playbook import read_playbooks
from palestra.gateway.player import Performance, Player
from palestra.ports import PreparedCall
from palestra.rules.errors import Broken, PalestraError
from palestra.rules.units import SECOND

LONGEST_BODY = 64 << 20


class ScriptedUpstream:
    """The same without a server: an `Upstream` that plays in this process."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def open(self, call: PreparedCall) -> ScriptedAnswer:
        """Play the call's body; the address doesn't matter."""
        played = self._player.play(call.body)
        await asyncio.sleep(played.wait / SECOND)
        if played.fault == "hangup":
            raise Broken("the upstream closed the connection before it answered, as its playbook says")
        return ScriptedAnswer(played)


class ScriptedAnswer:
    """A performance on its way."""

    def __init__(self, played: Performance) -> None:
        self._played = played
        self.status = played.status
        self.headers: Sequence[tuple[str, str]] = played.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces, at their pace. `Broken` at the end of a cut answer."""
        for piece in self._played.sent():
            yield piece
            await asyncio.sleep(self._played.pace / SECOND)
        if self._played.fault == "cut":
            raise Broken(
                "the upstream broke off in the middle of its answer, as its playbook says", retry=False
            )

    async def close(self) -> None:
        """Nothing is held."""


class ScriptedServer:
    """Serves a folder of playbooks over TCP on the loopback, or over a unix socket. Start it on the loop it shall run on."""

    def __init__(self, playbooks: Path) -> None:
        """`BadInput` when a playbook can't be read."""
        self.player = Player(read_playbooks(playbooks))
        self._runner: web.AppRunner | None = None

    async def start(self, *, host: str = "127.0.0.1", port: int = 0, unix: Path | None = None) -> str:
        """Listen; returns the address, up to and with `/v1`, as a route of the gateway takes it."""
        app = web.Application(client_max_size=LONGEST_BODY)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        if unix is not None:
            await web.UnixSite(self._runner, str(unix)).start()
            return f"unix:{unix}:/v1"
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return f"http://{host}:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _list(self, request: web.Request) -> web.Response:
        models = [{"id": name, "object": "model", "owned_by": "scripted"} for name in self.player.books]
        return web.json_response({"object": "list", "data": models})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        played = self.player.play(await request.read())
        await asyncio.sleep(played.wait / SECOND)
        transport = request.transport
        assert transport is not None, "a request that is being read has a connection"
        if played.fault == "hangup":
            transport.abort()
            return web.Response()
        response = web.StreamResponse(status=played.status, headers=dict(played.headers))
        if not played.streamed:
            response.content_length = played.size
        await response.prepare(request)
        for piece in played.sent():
            await response.write(piece)
            await asyncio.sleep(played.pace / SECOND)
        if played.fault == "cut":
            transport.close()
        else:
            await response.write_eof()
        return response


async def _serve(options: argparse.Namespace) -> None:
    server = ScriptedServer(options.playbooks)
    address = await server.start(host=options.host, port=options.port, unix=options.unix)
    sys.stdout.write(f"listening on {address}, models: {', '.join(server.player.books)}\n")
    sys.stdout.flush()
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await over.wait()
    await server.stop()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m palestra.gateway.scripted", description="Plays playbooks as models."
    )
    parser.add_argument(
        "--playbooks", type=Path, required=True, metavar="DIR", help="one NAME.toml for each model NAME"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one, which is printed")
    parser.add_argument("--unix", type=Path, metavar="PATH", help="listen on this socket instead")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except (PalestraError, OSError) as error:
        sys.stderr.write(f"scripted: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
