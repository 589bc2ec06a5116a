"""A whole rules file, and the faults of one that was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from palestra.rules.competition import Competition
from palestra.rules.read import BadCompetition, read_competition

ZONES = frozenset({"UTC", "Europe/Berlin", "America/Los_Angeles"})


class Whole:
    """`whole.toml`, which uses every table; changes to it are (old, new) texts."""

    text = (Path(__file__).parent / "whole.toml").read_text()

    def read(self, text: str | None = None) -> Competition:
        return read_competition(self.text if text is None else text, zones=ZONES)

    def changed(self, *changes: tuple[str, str]) -> str:
        text = self.text
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    def faults(self, text: str) -> list[str]:
        with pytest.raises(BadCompetition) as bad:
            self.read(text)
        faults = bad.value.faults
        assert str(bad.value) == "\n".join(str(fault) for fault in faults)
        assert [fault.line for fault in faults] == sorted(fault.line for fault in faults)
        return [str(fault) for fault in faults]

    def only_fault(self, *changes: tuple[str, str]) -> str:
        found = self.faults(self.changed(*changes))
        assert len(found) == 1, found
        return found[0]


@pytest.fixture(scope="session")
def whole() -> Whole:
    return Whole()
