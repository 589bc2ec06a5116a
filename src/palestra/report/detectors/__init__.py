"""What to look for in a window's facts. Each detector is a pure function `detect(facts) -> list[Finding]` in a file of its own.

A new one is a file here and a line in `DETECTORS`. Each has a version, which goes up when the same facts would give other
findings; thresholds go with the length of the competition and are said in the finding.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from palestra.report.facts import Facts
from palestra.report.findings import Finding, rank

Detect = Callable[[Facts], list[Finding]]

DETECTORS = {
    "result": "palestra.report.detectors.result:detect",
    "first_nomination": "palestra.report.detectors.first_nomination:detect",
    "copy_time": "palestra.report.detectors.copy_time:detect",
    "unchanged_copy": "palestra.report.detectors.unchanged_copy:detect",
    "ahead_of_pace": "palestra.report.detectors.ahead_of_pace:detect",
    "left_unused": "palestra.report.detectors.left_unused:detect",
    "long_wait": "palestra.report.detectors.long_wait:detect",
    "time_limit": "palestra.report.detectors.time_limit:detect",
    "recovered": "palestra.report.detectors.recovered:detect",
}


def find_detector(name: str) -> Detect:
    """The detector of this name, imported now."""
    module, _, attribute = DETECTORS[name].partition(":")
    return cast(Detect, getattr(importlib.import_module(module), attribute))


def detect(facts: Facts) -> tuple[Finding, ...]:
    """Everything that was found, most telling first."""
    found = [one for name in DETECTORS for one in find_detector(name)(facts)]
    return rank(found, len(facts.corners))
