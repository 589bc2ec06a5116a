"""Entrants' harnesses: a corner's facts in, the process to start out. The registry maps a name to `module:attr`.

A new harness is one file here with a pure function `launch(seat) -> Process`, and one line in `HARNESSES`.
"""

from __future__ import annotations

import importlib
from typing import cast

from palestra.agents.seat import Launch
from palestra.rules.errors import BadInput

HARNESSES = {
    "house": "palestra.agents.house:launch",
    "command": "palestra.agents.command:launch",
}


def find_harness(name: str) -> Launch:
    """The harness of this name, imported now; `BadInput` lists those there are."""
    if name not in HARNESSES:
        raise BadInput("harness", name, f"one of: {', '.join(sorted(HARNESSES))}")
    module, _, attribute = HARNESSES[name].partition(":")
    return cast(Launch, getattr(importlib.import_module(module), attribute))
