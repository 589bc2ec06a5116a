"""Events of model calls: reserved before the upstream is asked, then charged or released."""

from __future__ import annotations

from typing import ClassVar

from palestra.events.base import Event
from palestra.rules.prices import Usage
from palestra.rules.units import Digest, NanoDollars


class CallReserved(Event, frozen=True):
    """Money is held for a call's worst case; durable before the upstream hears of it."""

    SUBJECT: ClassVar[str] = "call"
    call: str
    corner: str
    model: str
    hold: NanoDollars
    input_bound: int
    output_cap: int
    asked_cap: int | None
    """The maximum the client named; None when it named none. A smaller `output_cap` was shrunk to fit the credit."""


class CallCharged(Event, frozen=True):
    """A call is settled: by the upstream's own usage, or at the hold where no usage came."""

    SUBJECT: ClassVar[str] = "call"
    call: str
    corner: str
    charge: NanoDollars
    usage: Usage
    estimated: bool
    """True: no usage was seen and the hold was charged."""
    status: int
    finish: str
    uncovered: NanoDollars = NanoDollars(0)
    """What the usage costs beyond the hold; never charged to the corner, raised as an alarm."""
    hung_up: bool = False
    asked_body: Digest | None = None
    answered_body: Digest | None = None
    first_step: int = 0
    steps: int = 0


class CallReleased(Event, frozen=True):
    """Nothing was used: the hold is given back."""

    SUBJECT: ClassVar[str] = "call"
    call: str
    corner: str
    why: str
    status: int
