"""The reference page of the commands is the one that their parsers write."""

from __future__ import annotations

import os
import sys

import pytest
from tests.cli.terminal import ROOT

from palestra.cli.reference import reference

PAGE = ROOT / "docs" / "reference" / "commands.md"


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse lays help out otherwise in other releases"
)
def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", os.environ.get("COLUMNS", "80"))  # put back afterwards
    renew = ".venv/bin/python -m palestra.cli.reference > docs/reference/commands.md"
    assert PAGE.read_text() == reference(), f"renew it: {renew}"
