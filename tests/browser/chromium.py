"""Drives Debian's chromium through the DevTools protocol over one websocket: what a test needs of a browser, without Node."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

DEADLINE = 60.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1", "--font-render-hinting=none",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0",
)  # fmt: skip


def find_chromium() -> str | None:
    """The browser's program, where there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        None,
    )


class Chromium:
    """A running browser. `tab` opens a page of its own, with nothing stored."""

    def __init__(self, link: aiohttp.ClientWebSocketResponse) -> None:
        self._link = link
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reader = asyncio.create_task(self._read())

    async def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command and its result."""
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._link.send_json({**message, "sessionId": session} if session else message)
        async with asyncio.timeout(DEADLINE):
            answer = await answered
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def tab(self) -> Tab:
        """A new, empty page."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = await self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, attached["sessionId"])
        self._tabs[attached["sessionId"]] = tab
        for room in ("Page", "Runtime", "Log", "Network"):
            await tab.send(f"{room}.enable")
        return tab

    async def _read(self) -> None:
        async for message in self._link:
            told = message.json()
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            elif told.get("sessionId") in self._tabs:
                self._tabs[told["sessionId"]].hear(told["method"], told["params"])

    async def close(self) -> None:
        """Let go of the link."""
        self._reader.cancel()
        await self._link.close()


class Tab:
    """One page: where it goes, what it looks like, and what it complained about."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser, self._session = browser, session
        self.complaints: list[str] = []
        self.requested: list[str] = []
        self._loaded = asyncio.Event()

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command to this page."""
        return await self._browser.send(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """An event of the browser's."""
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])

    async def look(self, width: int, height: int = 900, *, dark: bool = False, script: bool = True) -> None:
        """How the page is to be seen from now on."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.send("Emulation.setEmulatedMedia", features=features)
        await self.send("Emulation.setScriptExecutionDisabled", value=not script)

    async def go(self, url: str) -> None:
        """Load a page, its fonts too."""
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
        async with asyncio.timeout(DEADLINE):
            await self._loaded.wait()
        await self.run("document.fonts.ready.then(() => true)")

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        answer = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        async with asyncio.timeout(DEADLINE):
            while not await self.run(script):  # noqa: ASYNC110  the page can't wake us
                await asyncio.sleep(0.05)

    async def press(self, key: str) -> None:
        """One key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = (await self.send("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        shot = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240  nothing else runs meanwhile


@asynccontextmanager
async def chromium() -> AsyncIterator[Chromium]:
    """A browser with a profile of its own, gone afterwards."""
    program = find_chromium()
    assert program is not None, "no chromium is installed"
    profile = Path(tempfile.mkdtemp(prefix="chromium-"))
    with (profile / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program, *FLAGS, f"--user-data-dir={profile}", "about:blank", stdout=log, stderr=log,
            env={**os.environ, "HOME": str(profile)},
        )  # fmt: skip
    try:
        port, path = await _address(profile, process)
        async with aiohttp.ClientSession() as session:
            link = await session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0)
            browser = Chromium(link)
            try:
                yield browser
                with suppress(Exception):
                    await browser.send("Browser.close")
            finally:
                await browser.close()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        shutil.rmtree(profile, ignore_errors=True)


async def _address(profile: Path, process: asyncio.subprocess.Process) -> tuple[str, str]:
    """Where the browser listens: it writes that down once it is up."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with suppress(FileNotFoundError):
                lines = (profile / "DevToolsActivePort").read_text().splitlines()
                if len(lines) == 2:
                    return lines[0], lines[1]
            assert process.returncode is None, f"chromium ended:\n{(profile / 'log').read_text()[-2000:]}"
            await asyncio.sleep(0.05)
