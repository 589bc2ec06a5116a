"""Takes the README's pictures: runs the pocket arena for real and photographs its live page. Needs chromium; about three minutes.

.venv/bin/python docs/pictures/make.py
"""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import aiohttp
import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import Chromium, Tab, chromium  # noqa: E402  # tests are not installed

HERE = Path(__file__).parent
PALESTRA = ROOT / ".venv" / "bin" / "palestra"
WORTH_SEEING = 3
"""Nominations there must be before the live page is photographed."""


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "competitions" / "pocket-arena", Path(folder, "pocket-arena"))
        run = await asyncio.create_subprocess_exec(
            PALESTRA, "run", "pocket-arena", "--until-end", "--no-open", cwd=folder, stdout=subprocess.PIPE
        )
        assert run.stdout is not None
        url = await _address(run.stdout)
        async with chromium() as browser:
            await asyncio.gather(_join_late(folder), _photograph(browser, url))
        await asyncio.gather(run.communicate())


async def _address(lines: asyncio.StreamReader) -> str:
    async for line in lines:
        found = re.search(rb"live page: (\S+)", line)
        if found:
            return found[1].decode()
    raise SystemExit("the run ended before it said where its live page is")


async def _join_late(folder: str) -> None:
    await asyncio.sleep(20)
    who = [
        "--name",
        "Latecomer",
        "--lab",
        "West Lab",
        "--alias",
        "Heron",
        "--model",
        "heron-mini",
        "--start",
        "5s",
    ]
    run = Path(folder, "runs", "pocket-arena")
    late = await asyncio.create_subprocess_exec(
        PALESTRA, "entrant", "add", run, *who, stdout=subprocess.DEVNULL
    )
    await late.wait()


async def _photograph(browser: Chromium, url: str) -> None:
    tab = await browser.tab()
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}tick.json") as answer:
                agents = msgspec.json.decode(await answer.read())["agents"].values()
            if sum(agent["nominations"] for agent in agents) >= WORTH_SEEING and any(
                agent["waiting"] for agent in agents
            ):
                break
            await asyncio.sleep(0.3)
    await tab.look(1280, 1250)
    await tab.go(url)
    await _shoot(tab, HERE / "live.png")


async def _shoot(tab: Tab, path: Path) -> None:
    """What fits on the screen."""
    shot = await tab.send("Page.captureScreenshot", format="png")
    path.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240  # nothing else runs meanwhile


asyncio.run(main())
