"""The scripted upstream as anyone uses it: its usage, caps and faults, through the gateway and from the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.arena import BROKEN_OFF, MODEL, Arena, ask, on_loop, serving, until

from palestra.gateway.playbook import read_playbooks
from palestra.gateway.player import Player
from palestra.gateway.scripted import ScriptedServer

TOOLS = [{"type": "function", "function": {"name": "shell"}}]


@asynccontextmanager
async def playing(folder: Path, text: str) -> AsyncIterator[Arena]:
    """An arena whose model plays this book, over a unix socket."""
    (folder / "real-name-1.toml").write_text(text)
    server = ScriptedServer(folder)
    url = await server.start(unix=folder / "s.sock")
    try:
        async with serving(url) as arena:
            yield arena
    finally:
        await server.stop()


@pytest.mark.parametrize("streamed", [True, False])
@on_loop
async def test_usage_is_counted_in_bytes_and_paid(streamed: bool, tmp_path: Path) -> None:
    """F07: ceil(bytes / 4) tokens in and out, part of them cached; the same streamed and whole."""
    async with playing(tmp_path, 'cached = 0.5\n[[turn]]\nsay = "Good evening."') as arena:
        async with arena.post(ask(stream=streamed)) as response:
            assert response.status == 200
            assert b"Good" in await response.read()
        await arena.settled()
        (charge,) = arena.charges
    asked = -(-len(json.dumps(ask()["messages"], separators=(",", ":"))) // 4)
    assert charge.usage.cached_input == asked // 2
    assert charge.usage.fresh_input == asked - asked // 2
    assert (charge.usage.output, charge.finish) == (4, "stop")


@pytest.mark.parametrize(("cap", "arguments"), [(2, None), (5, '{"command":"')])
@on_loop
async def test_the_output_cap_cuts_also_a_tool_call(cap: int, arguments: str | None, tmp_path: Path) -> None:
    """F10: text first, then the call's arguments, as far as the cap goes; `length` says so."""
    async with playing(tmp_path, '[[turn]]\nsay = "12345678"\nrun = "echo hello"') as arena:
        async with arena.post(ask(tools=TOOLS, max_tokens=cap)) as response:
            choice = json.loads(await response.read())["choices"][0]
        await arena.settled()
        assert arena.charges[0].finish == "length" and arena.charges[0].usage.output == cap
    assert choice["finish_reason"] == "length"
    calls = choice["message"].get("tool_calls")
    assert (calls and calls[0]["function"]["arguments"]) == arguments


@pytest.mark.parametrize("fault", ["429", "500", "hangup"])
@on_loop
async def test_faults_that_pass_are_absorbed(fault: str, tmp_path: Path) -> None:
    """Once for the same request; the client sees only the answer."""
    async with playing(tmp_path, f'[[turn]]\nsay = "fine"\nfault = "{fault}"') as arena:
        async with arena.post(ask()) as response:
            assert response.status == 200 and b"fine" in await response.read()
        await arena.settled()
        assert len(arena.charges) == 1 and not arena.charges[0].estimated


@pytest.mark.parametrize(("fault", "finish"), [("no_usage", "stop"), ("cut", "cut")])
@on_loop
async def test_faults_that_stay_are_charged_at_the_hold(fault: str, finish: str, tmp_path: Path) -> None:
    """F05: no usage came."""
    async with playing(tmp_path, f'[[turn]]\nsay = "this is not everything"\nfault = "{fault}"') as arena:
        async with arena.post(ask(stream=True)) as response:
            if fault == "cut":
                with pytest.raises(Exception, match=BROKEN_OFF):
                    await response.read()
        await arena.settled()
        (charge,) = arena.charges
        assert (charge.estimated, charge.finish) == (True, finish)


def test_latency_pace_and_slowness_are_in_the_performance(tmp_path: Path) -> None:
    """Timing is data; who plays it sleeps."""
    (tmp_path / "m.toml").write_text(
        'latency = "50ms"\nper_token = "2ms"\n[[turn]]\nsay = "12345678"\n[[turn]]\nsay = "12345678"\nfault = "slow"'
    )
    player = Player(read_playbooks(tmp_path))

    def play(*said: dict[str, Any], stream: bool) -> tuple[int, int]:
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "x"}, *said]}
        played = player.play(json.dumps(body).encode())
        return played.wait, played.pace

    assert play(stream=True) == (50_000, 2_000)
    assert play(stream=False) == (54_000, 2_000)
    assert play({"role": "assistant", "content": "x"}, stream=True) == (1_000_000, 20_000)


def test_it_runs_by_itself(tmp_path: Path) -> None:
    """`python -m palestra.gateway.scripted`: prints its address, answers any client, ends on TERM."""
    (tmp_path / "careful.toml").write_text('[[turn]]\nsay = "Good evening."')
    argv = [sys.executable, "-m", "palestra.gateway.scripted", "--playbooks", str(tmp_path), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = line.split()[2].rstrip(",")
            body = json.dumps({"model": "careful", "messages": [{"role": "user", "content": "hi"}]}).encode()
            request = urllib.request.Request(
                f"{url}/chat/completions", body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                said = json.load(response)
            assert said["choices"][0]["message"]["content"] == "Good evening."
            with urllib.request.urlopen(f"{url}/models", timeout=30) as response:
                assert [model["id"] for model in json.load(response)["data"]] == ["careful"]
        finally:
            process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("wrong", ["playbook", "port"])
def test_what_is_wrong_at_the_start_is_one_sentence(wrong: str, tmp_path: Path) -> None:
    """A bad playbook, or a port in use: no traceback."""
    (tmp_path / "careful.toml").write_text("[[turn]]\n" if wrong == "playbook" else '[[turn]]\nsay = "x"')

    async def occupied() -> tuple[int, str]:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        argv = ["-m", "palestra.gateway.scripted", "--playbooks", str(tmp_path), "--port", str(port)]
        process = await asyncio.create_subprocess_exec(sys.executable, *argv, stderr=asyncio.subprocess.PIPE)
        _, told = await process.communicate()
        server.close()
        assert process.returncode is not None
        return process.returncode, told.decode()

    code, told = asyncio.run(occupied())
    assert code == 1 and told.startswith("scripted: ") and told.count("\n") == 1
    assert ("turn 1" in told) if wrong == "playbook" else ("in use" in told)


@on_loop
async def test_a_whole_conversation_is_recorded_as_it_was_spoken(tmp_path: Path) -> None:
    """A small agent loop through gateway and playbook: every message one step, in order."""
    book = (
        '[[turn]]\nsay = "look"\nrun = "ls"\n[[turn]]\nsay = "and"\nrun = ["a", "b"]\n[[turn]]\nsay = "Done."'
    )
    async with playing(tmp_path, book) as arena:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
        ]
        finish = ""
        while finish != "stop":
            async with arena.post({"model": MODEL.name, "messages": messages, "tools": TOOLS}) as response:
                choice = json.loads(await response.read())["choices"][0]
            finish = choice["finish_reason"]
            messages.append(choice["message"])
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "out"}
                for call in choice["message"].get("tool_calls") or ()
            ]
        await arena.settled(3)
        assert [step.role for step in arena.steps()] == [message["role"] for message in messages]
        await until(lambda: arena.account.held == 0)
