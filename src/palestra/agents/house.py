"""The house harness: any chat-completions model, driven by the loop inside the `arena` command (`palestra.client.house`)."""

from __future__ import annotations

from palestra.agents.prompt import first_prompt
from palestra.agents.seat import Seat, environment
from palestra.ports import Process
from palestra.rules.errors import BadInput


def launch(seat: Seat) -> Process:
    """`arena house` in the corner's home; `BadInput` when no model is named."""
    if not seat.model:
        raise BadInput("model", seat.model, "the house harness needs the name of a model to drive")
    env = environment(seat, PALESTRA_PROMPT=first_prompt(seat))
    return Process(argv=(seat.python, seat.arena, "house"), cwd=seat.home, env=env)
