"""The site on a real port: found, refused clearly, and closed with its streams ended first."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from tests.web.pages.scene import Scene

from palestra.rules.errors import Broken
from palestra.web.pages.serve import HOST, open_site
from palestra.web.pages.site import Site
from palestra.web.pages.source import FolderRun


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(FolderRun(Scene("running").write(tmp_path / "run")))


async def listen(port: int, extra: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n" + extra + b"\r\n")
    await writer.drain()
    assert await reader.readuntil(b"\r\n\r\n")
    assert b"retry" in await reader.readuntil(b"2000\n\n")
    return reader, writer


def test_a_hundred_open_streams_are_ended_in_good_order(site: Site) -> None:
    """Each stream ends with its last chunk, so none was cut: streams close before the grace is over."""

    async def play() -> list[bytes]:
        opened = await open_site(site)
        streams = [await listen(opened.port) for _ in range(100)]
        closing = asyncio.create_task(opened.close())
        async with asyncio.timeout(30):
            ends = [await reader.read() for reader, _ in streams]
            await closing
        for _, writer in streams:
            writer.close()
        return ends

    ends = asyncio.run(play())
    assert len(ends) == 100 and all(end.endswith(b"0\r\n\r\n") for end in ends)


def test_a_client_that_hangs_up_is_forgotten(site: Site) -> None:
    async def play() -> None:
        opened = await open_site(site)
        _, writer = await listen(opened.port)
        assert site.ring.clients == 1
        writer.close()
        async with asyncio.timeout(30):
            while site.ring.clients:  # noqa: ASYNC110  the server notices by itself
                await asyncio.sleep(0.01)
        await opened.close()

    asyncio.run(play())


def test_the_last_id_seen_is_taken_from_the_header(site: Site) -> None:
    """F48: over HTTP."""

    async def play() -> bytes:
        opened = await open_site(site)
        head = site.ring.head
        reader, writer = await listen(opened.port, b"Last-Event-ID: %d\r\n" % (head - 6))
        async with asyncio.timeout(30):
            said = await reader.readuntil(b"id: %d\n" % head)
        writer.close()
        await opened.close()
        return said

    said = asyncio.run(play())
    assert b"resync" not in said and said.count(b"id: ") >= 2


def test_a_taken_port_is_one_clear_sentence(site: Site) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Broken) as caught:
            asyncio.run(open_site(site, port))
    said = str(caught.value)
    assert (
        said
        == f"port {port} on 127.0.0.1 is taken by another program; give another one, or 0 for any that is free"
    )


def test_too_many_streams_are_told_to_poll(site: Site) -> None:
    async def play() -> bytes:
        opened = await open_site(site)
        site.ring.clients = 1_000
        reader, writer = await asyncio.open_connection(HOST, opened.port)
        writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            status = await reader.readline()
        site.ring.clients = 0
        writer.close()
        await opened.close()
        return status

    assert asyncio.run(play()).startswith(b"HTTP/1.1 204 ")
