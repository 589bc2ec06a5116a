"""The live pages in a real browser: they fit, they can be read, they stay silent, and what agents wrote does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.browser.chromium import Tab, chromium
from tests.web.pages.scene import HOSTILE, SEALED, TOKEN, Scene, When
from tests.web.pages.test_ring import Told

from palestra.web.pages.serve import open_site
from palestra.web.pages.site import Site
from palestra.web.pages.source import FolderRun

pytestmark = pytest.mark.slow

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
PAGES = {
    "overview": "", "agent": "agents/A", "agent_hostile": "agents/C", "trajectory": "agents/C/steps", "trajectory_cut": "agents/D/steps",
    "job": "jobs/B-j1", "job_hostile": "jobs/C-j1", "job_waiting": "jobs/C-j2", "missing": "nowhere",
}  # fmt: skip
OVERFLOW = """(() => {
  const wide = document.documentElement.clientWidth;
  const inside = (one) => { for (let p = one.parentElement; p; p = p.parentElement) if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(p).overflowX)) return true; return false; };
  const out = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > wide + 1 && !inside(one));
  return { width: document.documentElement.scrollWidth, out: out.map((one) => one.outerHTML.slice(0, 90)).slice(0, 5) };
})()"""


class Look(NamedTuple):
    """How a page is seen."""

    name: str
    width: int
    dark: bool


LOOKS = (
    Look("light", 1280, False),
    Look("dark", 1280, True),
    Look("phone", 390, False),
    Look("phone_dark", 390, True),
)


@asynccontextmanager
async def seen(folder: Path, when: When) -> AsyncIterator[tuple[Tab, str]]:
    """A tab, and the address of a served run."""
    scene = Scene(when)
    source = FolderRun(scene.write(folder / "run"), scene.run.at)
    opened = await open_site(Site(source))
    try:
        async with chromium() as browser:
            yield await browser.tab(), opened.url
    finally:
        await opened.close()


def play(folder: Path, when: When, act: Callable[[Tab, str], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with seen(folder, when) as (tab, url):
            await act(tab, url)

    asyncio.run(run())


@pytest.mark.parametrize("when", ["announced", "running", "results"])
def test_every_page_fits_can_be_read_and_stays_silent(tmp_path: Path, pictures: Path, when: When) -> None:
    """No sideways scrolling at 390 px, 4.5:1 contrast, a clean console, nothing fetched elsewhere: light, dark and on a phone."""
    pages = PAGES if when == "running" else {name: PAGES[name] for name in ("overview", "agent")}

    async def act(tab: Tab, url: str) -> None:
        for look in LOOKS:
            await tab.look(look.width, dark=look.dark)
            for name, path in pages.items():
                await tab.go(url + path)
                await tab.picture(pictures / f"{when}_{name}_{look.name}.png")
                fits = await tab.run(OVERFLOW)
                assert fits == {"width": look.width, "out": []}, (name, look, fits)
                contrast = await tab.run(CONTRAST)
                assert contrast["seen"] > (5 if name == "missing" else 15), (name, look)
                assert contrast["short"] == [], (name, look, contrast["short"])
        complaints = [one for one in tab.complaints if "/nowhere" not in one]
        assert complaints == []
        assert {one for one in tab.requested if not one.startswith(url)} == set()

    play(tmp_path, when, act)


def test_the_checks_see_what_they_are_for(tmp_path: Path) -> None:
    """Pale text, a box that sticks out and a complaint are found."""

    async def act(tab: Tab, url: str) -> None:
        await tab.look(390)
        await tab.go(url)
        pale = "const p = document.createElement('p'); p.textContent = 'too pale'; p.style.color = '#aaa'; document.querySelector('main').append(p)"
        await tab.run(f"(() => {{ {pale}; return 0; }})()")
        assert [one.split(" (")[0] for one in (await tab.run(CONTRAST))["short"]] == ["too pale"]
        wide = "const p = document.createElement('p'); p.textContent = 'wide'; p.style.width = '500px'; p.id = 'wide'; document.querySelector('main').append(p)"
        await tab.run(f"(() => {{ {wide}; return 0; }})()")
        fits = await tab.run(OVERFLOW)
        assert fits["width"] > 390 and 'id="wide"' in fits["out"][0]
        await tab.run("console.error('something')")
        await tab.run(
            "new Promise((done) => { const i = new Image(); i.onerror = done; i.src = 'http://127.0.0.2/x'; })"
        )
        assert len(tab.complaints) >= 2  # the error, and what the policy kept out

    play(tmp_path, "running", act)


def test_hostile_text_does_nothing(tmp_path: Path) -> None:
    """F51: shown as it is; no tag, handler or link comes of it, no title changes, no box opens."""

    async def act(tab: Tab, url: str) -> None:
        await tab.look(1280)
        for path in ("", "agents/C", "agents/C/steps", "jobs/C-j1"):
            await tab.go(url + path)
            assert "owned" not in await tab.run("document.title")
            assert (
                await tab.run(
                    "document.querySelectorAll('main img, main script, main iframe, main [onerror]').length"
                )
                == 0
            )
            assert (
                await tab.run("[...document.links].filter((a) => !a.href.startsWith(location.origin)).length")
                == 0
            )
        await tab.go(url + "agents/C/steps")
        text = await tab.run("document.querySelector('#s1 .say1').textContent")
        assert HOSTILE.split("\n")[0].rstrip() in text
        assert "ESC]8;;javascript:alert(1)ESC\\" in text and "U+202E" in text
        whole = await tab.run("document.documentElement.outerHTML")
        assert TOKEN not in whole and not [name for name in SEALED if name in whole]
        assert tab.complaints == []

    play(tmp_path, "running", act)


def test_pages_are_readable_with_script_off(tmp_path: Path, pictures: Path) -> None:
    async def act(tab: Tab, url: str) -> None:
        await tab.look(1280, script=False)
        await tab.go(url)
        await tab.picture(pictures / "running_overview_noscript.png")
        await tab.look(1280)  # the page stays as it was loaded; only asking needs script
        text = await tab.run("document.body.innerText")
        for word in (
            "Scoreboard",
            "Careful",
            "0:02:11",
            "Would start now with 2 GiB.",
            "A slot is not a GPU.",
        ):
            assert word in text
        assert await tab.run("document.documentElement.classList.contains('js')") is False
        await tab.run("document.getElementById('theme').click()")  # the switch works by CSS alone
        assert await tab.run("getComputedStyle(document.documentElement).colorScheme") == "dark"

    play(tmp_path, "running", act)


def test_light_and_dark_are_the_readers_choice(tmp_path: Path) -> None:
    async def act(tab: Tab, url: str) -> None:
        await tab.look(1280, dark=True)
        await tab.go(url)
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = await tab.run(ground)
        await tab.run("document.getElementById('theme').click()")
        light = await tab.run(ground)
        assert dark != light
        await tab.go(url + "agents/A")
        assert await tab.run(ground) == light
        assert tab.complaints == []

    play(tmp_path, "running", act)


def test_keys_go_from_step_to_step_and_focus_can_be_seen(tmp_path: Path) -> None:
    async def act(tab: Tab, url: str) -> None:
        await tab.look(1280)
        await tab.go(url + "agents/A/steps")
        for key, hash_ in (("j", "#s1"), ("j", "#s2"), ("k", "#s1")):
            await tab.press(key)
            await tab.until(f"location.hash === '{hash_}'")
        await tab.go(url)
        for _ in range(4):
            await tab.press("Tab")
        assert await tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    play(tmp_path, "running", act)


def test_a_page_follows_what_happens(tmp_path: Path) -> None:
    """The stream tells, the part is drawn anew; the page isn't loaded again, and nothing is complained about."""
    told = Told(tmp_path / "run")
    told.source.live = True

    async def act() -> None:
        opened = await open_site(Site(told.source))
        try:
            async with chromium() as browser:
                tab = await browser.tab()
                await tab.look(1280)
                await tab.go(opened.url)
                await tab.until("document.getElementById('live-word').textContent === 'Live'")
                await tab.run(
                    "window.mark = 'the same page'; document.getElementById('board').dataset.old = 1"
                )
                told.happen(3)
                await tab.until(f"Number(document.body.dataset.seq) === {told.written}")
                assert "seals A-k3" in await tab.run("document.getElementById('events').innerText")
                assert await tab.run("window.mark") == "the same page"
                assert (
                    await tab.run("document.getElementById('board').dataset.old") == "1"
                )  # unchanged parts are left alone
                assert tab.complaints == []
        finally:
            await opened.close()

    asyncio.run(act())
