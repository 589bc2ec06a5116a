"""The reference page of `competition.toml` is the one that the table of keys writes."""

from __future__ import annotations

from pathlib import Path

from palestra.rules.keys import TABLES
from palestra.rules.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "competition.md"
RENEW = ".venv/bin/python -c 'from palestra.rules.reference import reference; print(reference(), end=\"\")' > docs/reference/competition.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference(), f"renew it: {RENEW}"


def test_the_page_lists_every_key_in_a_row_of_four_cells() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(table.keys) for table in TABLES)
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)
