"""Beginning a run: the rules are fixed, entrants take their corners in file order."""

from __future__ import annotations

import string

from msgspec.structs import replace

from palestra.events.base import Event
from palestra.events.corners import EntrantSeated
from palestra.events.runs import RunOpened
from palestra.referee.requests import OpenRun
from palestra.rules.errors import Refusal
from palestra.rules.units import Moment
from palestra.state.arena import State


def open_run(state: State, request: OpenRun, at: Moment) -> list[Event] | Refusal:
    """RunOpened, then one EntrantSeated a corner; under an alias the journal never sees the true name."""
    if state.opened is not None:
        return Refusal("already_open", f"the run {state.opened.run} is open already")
    sealed = dict(request.sealed_names)
    entrants = tuple(
        replace(rule, name=rule.alias, lab="") if rule.alias else rule for rule in request.rules.entrants
    )
    rules = replace(request.rules, entrants=entrants)
    opened = RunOpened(
        request.run, rules, request.start, request.competition, request.terms, request.exam_program, request.base,
        request.exam_seed_commitment, request.isolation,
    )  # fmt: skip
    allowance = request.rules.allowance
    seats: list[Event] = [
        EntrantSeated(
            corner=string.ascii_uppercase[index],
            name=rule.name,
            lab=rule.lab,
            harness=rule.harness,
            model=rule.model,
            api_credit=allowance.api_credit,
            gpu_time=allowance.gpu_time,
            sealed_name=sealed.get(rule.alias, ""),
            command=rule.command,
        )
        for index, rule in enumerate(entrants)
    ]
    return [opened, *seats]
