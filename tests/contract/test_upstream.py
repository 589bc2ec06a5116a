"""What every upstream must do: the same suite over HTTP on TCP and on a unix socket, and over the one that plays in-process."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palestra.gateway.playbook import read_playbooks
from palestra.gateway.player import Player
from palestra.gateway.scripted import ScriptedServer, ScriptedUpstream
from palestra.gateway.upstream import HttpUpstream
from palestra.ports import PreparedCall, Upstream, UpstreamAnswer
from palestra.rules.errors import Broken

KINDS = ["tcp", "unix", "in-process"]
BOOKS = {
    "plain": '[[turn]]\nsay = "Good evening, caf\u00e9 \u2028 <|im_end|>."',
    "slow": 'latency = "5ms"\nper_token = "1ms"\n[[turn]]\nsay = "One word after the other."',
    "hangup": '[[turn]]\nsay = "x"\nfault = "hangup"',
    "busy": '[[turn]]\nsay = "x"\nfault = "429"',
    "cut": '[[turn]]\nsay = "This answer never comes to its end."\nfault = "cut"',
}


@asynccontextmanager
async def upstream_of(kind: str) -> AsyncIterator[tuple[Upstream, str]]:
    """(upstream, address) with the books above behind it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in BOOKS.items():
            (Path(folder) / f"{name}.toml").write_text(text)
        if kind == "in-process":
            yield ScriptedUpstream(Player(read_playbooks(Path(folder)))), "http://nowhere/v1"
            return
        server, upstream = ScriptedServer(Path(folder)), HttpUpstream()
        url = await server.start(unix=Path(folder) / "up.sock" if kind == "unix" else None)
        try:
            yield upstream, url
        finally:
            await upstream.close()
            await server.stop()


def call_to(url: str, model: str, *, streamed: bool = False, text: str = "hello") -> PreparedCall:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": streamed}
    return PreparedCall(
        url=f"{url}/chat/completions",
        headers=(("content-type", "application/json"), ("accept-encoding", "identity")),
        body=json.dumps(body).encode(),
        streamed=streamed,
    )


async def read(answer: UpstreamAnswer) -> bytes:
    whole = b"".join([chunk async for chunk in answer.chunks()])
    await answer.close()
    return whole


Scenario = Callable[[Upstream, str], Coroutine[Any, Any, None]]


def on_each(scenario: Scenario) -> Callable[[str], None]:
    @pytest.mark.parametrize("kind", KINDS)
    def test(kind: str) -> None:
        async def within() -> None:
            async with asyncio.timeout(60), upstream_of(kind) as (upstream, url):
                await scenario(upstream, url)

        asyncio.run(within())

    test.__doc__ = scenario.__doc__
    return test


@on_each
async def test_an_answer_has_status_headers_and_body(upstream: Upstream, url: str) -> None:
    """A whole answer, its text untouched."""
    answer = await upstream.open(call_to(url, "plain"))
    assert answer.status == 200
    assert "application/json" in {name.lower(): value for name, value in answer.headers}["content-type"]
    said = json.loads(await read(answer))
    assert said["choices"][0]["message"]["content"] == "Good evening, caf\u00e9 \u2028 <|im_end|>."


@on_each
async def test_a_stream_comes_in_pieces(upstream: Upstream, url: str) -> None:
    """The first piece is here before the last is made."""
    answer = await upstream.open(call_to(url, "slow", streamed=True))
    chunks = [chunk async for chunk in answer.chunks()]
    await answer.close()
    assert len(chunks) > 1 and chunks[0].startswith(b"data: ")
    assert b"".join(chunks).endswith(b"data: [DONE]\n\n")


@on_each
async def test_a_bad_status_is_an_answer(upstream: Upstream, url: str) -> None:
    """404 and 429 aren't exceptions: someone else decides what they mean."""
    missing = await upstream.open(call_to(url, "nobody"))
    assert missing.status == 404 and b"nobody" in await read(missing)
    busy = await upstream.open(call_to(url, "busy"))
    assert busy.status == 429
    assert ("retry-after", "0") in [(name.lower(), value) for name, value in busy.headers]
    await busy.close()
    again = await upstream.open(call_to(url, "busy"))
    assert again.status == 200
    await again.close()


@on_each
async def test_no_answer_at_all_is_broken_and_worth_a_retry(upstream: Upstream, url: str) -> None:
    """The connection is closed before a byte came."""
    with pytest.raises(Broken) as broken:
        await upstream.open(call_to(url, "hangup"))
    assert broken.value.retry
    assert (await upstream.open(call_to(url, "hangup"))).status == 200


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_breaks_off_is_broken_for_good(kind: str, streamed: bool) -> None:
    """What came before the break is passed on first; it isn't worth a retry, for it may be billed."""

    async def scenario() -> None:
        async with asyncio.timeout(60), upstream_of(kind) as (upstream, url):
            answer = await upstream.open(call_to(url, "cut", streamed=streamed))
            came = b""
            with pytest.raises(Broken) as broken:
                async for chunk in answer.chunks():
                    came += chunk
            await answer.close()
            assert came and not broken.value.retry

    asyncio.run(scenario())


@on_each
async def test_an_answer_may_be_left_in_the_middle_and_many_go_on_at_once(
    upstream: Upstream, url: str
) -> None:
    """Closing one disturbs no other."""
    left = await upstream.open(call_to(url, "slow", streamed=True))
    async for _ in left.chunks():
        break
    await left.close()
    answers = await asyncio.gather(*(upstream.open(call_to(url, "slow", text=str(n))) for n in range(20)))
    bodies = await asyncio.gather(*(read(answer) for answer in answers))
    assert all(json.loads(body)["choices"][0]["finish_reason"] == "stop" for body in bodies)


@on_each
async def test_a_long_body_arrives(upstream: Upstream, url: str) -> None:
    """3 MB up; the usage tells that all of it came."""
    answer = await upstream.open(call_to(url, "plain", text="x" * 3_000_000))
    assert json.loads(await read(answer))["usage"]["prompt_tokens"] > 750_000
