"""The `command` harness: whatever program the entrant brings. Its first prompt is in PALESTRA_PROMPT."""

from __future__ import annotations

from palestra.agents.prompt import first_prompt
from palestra.agents.seat import Seat, environment
from palestra.ports import Process
from palestra.rules.errors import BadInput


def launch(seat: Seat) -> Process:
    """The entrant's own argv in the corner's home; `{prompt}` as an argument of its own becomes the first prompt."""
    if not seat.command:
        raise BadInput("command", list(seat.command), 'the argv to start, such as ["python", "agent.py"]')
    prompt = first_prompt(seat)
    argv = tuple(prompt if word == "{prompt}" else word for word in seat.command)
    # Chat-completions clients that know only a URL can't use a unix socket; they go through `arena` or a bridge of their own.
    return Process(argv=argv, cwd=seat.home, env=environment(seat, PALESTRA_PROMPT=prompt))
