"""Charts as lists with positioned marks: facts in, HTML out. Each is `draw(facts, evidence) -> Chart` in a file of its own.

They are text that reflows and can be read aloud; a new one is a file here and a line in `CHARTS`. Bars start at nothing and
share one scale in a chart: drawn width over value is the same everywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from palestra.report.drawing import Chart
from palestra.report.evidence import Evidence
from palestra.report.facts import Facts

Draw = Callable[[Facts, Evidence], Chart]

CHARTS = {
    "nominations": "palestra.report.charts.nominations:draw",
    "budgets": "palestra.report.charts.budgets:draw",
    "ends": "palestra.report.charts.ends:draw",
    "waits": "palestra.report.charts.waits:draw",
}
"""In the order in which a page shows them."""


def find_chart(name: str) -> Draw:
    """The chart of this name, imported now."""
    module, _, attribute = CHARTS[name].partition(":")
    return cast(Draw, getattr(importlib.import_module(module), attribute))
