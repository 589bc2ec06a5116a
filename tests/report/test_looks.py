"""The page in a real browser: it fits, it can be read, its bars are as wide as they are worth, and it stays silent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.browser.chromium import Tab, chromium, find_chromium
from tests.report.reading import facts_of

from palestra.report.day import compose
from palestra.report.render import render
from palestra.report.window import Asked
from palestra.runtime.skins import load_skin

pytestmark = pytest.mark.slow

CONTRAST = (Path(__file__).parents[1] / "browser" / "contrast.js").read_text()
LOOKS = (("light", 1280, False), ("dark", 1280, True), ("phone", 390, False), ("phone_dark", 390, True))
CASES = {
    "pocket": Asked(),
    "pocket_mid": Asked(until="T+0:01:10"),
    "troubled": Asked(until="T+1:10:00"),
    "joined": Asked(),
}
OUTSIDE = """(() => {
  const wide = document.documentElement.clientWidth;
  const inside = (one) => { for (let p = one.parentElement; p; p = p.parentElement) if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(p).overflowX)) return true; return false; };
  const out = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > wide + 1 && !inside(one));
  return { width: document.documentElement.scrollWidth, out: out.map((one) => one.outerHTML.slice(0, 120)).slice(0, 5) };
})()"""
BARS = """[...document.querySelectorAll("ul")].map((list) => [...list.querySelectorAll(":scope > li .bar[data-v]")]
  .map((bar) => [bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width, Number(bar.dataset.v)]))
  .filter((list) => list.length)"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for screenshots; PALESTRA_PICTURES names one that stays."""
    kept = os.environ.get("PALESTRA_PICTURES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.skipif(
    find_chromium() is None and not os.environ.get("CI"), reason="no chromium: apt-get install chromium"
)
@pytest.mark.parametrize("case", CASES)
def test_a_report_fits_can_be_read_and_is_honest(tmp_path: Path, pictures: Path, case: str) -> None:
    """No sideways scrolling at 390 px, 4.5:1 contrast, a clean console, nothing fetched; bars true to 0.1 %. S09 on screen."""
    path = tmp_path / f"{case}.html"
    facts = facts_of(case.removesuffix("_mid"), CASES[case])
    path.write_text(render(compose(facts), load_skin()), encoding="utf-8")

    async def act() -> None:
        async with chromium() as browser:
            tab = await browser.tab()
            for name, width, dark in LOOKS:
                await tab.look(width, dark=dark)
                await tab.go(path.as_uri())
                await _check(tab, (case, name))
                await tab.picture(pictures / f"report_{case}_{name}.png")
            assert tab.complaints == []
            assert {url for url in tab.requested if not url.startswith("data:")} == {path.as_uri()}

    asyncio.run(act())


async def _check(tab: Tab, where: tuple[str, str]) -> None:
    fit: Any = await tab.run(OUTSIDE)
    assert fit["out"] == [], (where, fit)
    assert fit["width"] <= (390 if "phone" in where[1] else 1280), (where, fit)
    contrast: Any = await tab.run(CONTRAST)
    assert contrast["seen"] > 100, where
    assert contrast["short"] == [], (where, contrast["short"])
    for bars in await tab.run(BARS):
        width, value = max(bars)
        for drawn, worth in bars:
            assert drawn == pytest.approx(worth * width / value if value else 0, rel=1e-3, abs=5e-4), (
                where,
                bars,
            )
    theme = "document.getElementById('theme').checked = true; getComputedStyle(document.documentElement).colorScheme"
    assert await tab.run(theme) == ("light" if "dark" in where[1] else "dark")
