"""The scripted run, served; and where pictures of its pages go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.chromium import find_chromium


@pytest.fixture(autouse=True)
def _browser_is_there() -> None:
    """Without a browser these tests are skipped, but never where CI counts on them."""
    if find_chromium() is None:
        said = "no chromium here: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for screenshots; PALESTRA_PICTURES names one that stays."""
    kept = os.environ.get("PALESTRA_PICTURES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
