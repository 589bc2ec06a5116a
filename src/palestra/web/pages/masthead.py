"""What stands on every page: the clock, the stage, who competes, and what must be said about this machine."""

from __future__ import annotations

from typing import Literal

import msgspec
from markupsafe import Markup

from palestra.events.public import Unit
from palestra.events.runs import STAGES
from palestra.rules.units import DAY, HOUR, MINUTE, SECOND, Moment, show_hours
from palestra.state.clock import stage_end
from palestra.web.pages.figures import is_short, local, per_cent, running_end, span, t, unit_of
from palestra.web.pages.source import Source
from palestra.web.pages.text import line

STAGE_WORDS = {
    "announced": "Announced",
    "running": "Running",
    "closing": "Closing: copies finish",
    "judging": "Judging: the exam",
    "results": "Results",
}
_LENGTHS = (
    (DAY, "Day"), (12 * HOUR, ""), (6 * HOUR, ""), (HOUR, "Hour"), (30 * MINUTE, ""), (10 * MINUTE, ""), (5 * MINUTE, ""),
    (MINUTE, "Minute"), (30 * SECOND, ""), (10 * SECOND, ""), (SECOND, "Second"),
)  # fmt: skip
"""Stretches of time and what they are called; those without a name get the instant at which they begin."""


class Name(msgspec.Struct, frozen=True):
    """A corner as named on pages."""

    corner: str
    name: Markup
    lab: Markup
    alias: bool


class Part(msgspec.Struct, frozen=True):
    """A stretch of the clock's strip, filled so far."""

    label: str
    size: float
    """Of the whole strip, in per cent."""
    fill: float
    here: bool


class Masthead(msgspec.Struct, frozen=True):
    """One instant of a run, as every page begins."""

    title: Markup
    run: str
    seq: int
    sign: str
    """`T+`, or `T-` before the start."""
    t: str
    local: str
    stage: str
    stage_word: str
    kicker: str
    to_go: str
    parts: tuple[Part, ...]
    stages: tuple[tuple[str, Literal["past", "here", "next"]], ...]
    names: tuple[Name, ...]
    unit: Unit
    slots: bool
    isolation: str
    paused: bool
    live: bool
    """A server writes this run, and it isn't over."""
    at: int
    start: int
    end: int
    """Milliseconds since 1970, for the clock that ticks between events; `end` 0: no end is known."""
    seconds: bool

    def name(self, corner: str) -> Markup:
        """A corner's name as shown."""
        return next((one.name for one in self.names if one.corner == corner), Markup(corner))  # noqa: S704  an id of ours


def masthead(source: Source) -> Masthead:
    """As of now."""
    view = source.view()
    state, at, clock = view.state, view.at, view.state.clock
    opened = state.opened
    assert opened is not None
    end = stage_end(state)
    over = clock.stage == "results"
    shown_at = state.at if over else at
    place = STAGES.index(clock.stage)
    words = ["past" if n < place else "here" if n == place else "next" for n in range(len(STAGES))]
    strip = _strip(state.clock.start, running_end(state, view.catalog, at), at, clock.stage)
    number = next((n for n, part in enumerate(strip, 1) if part.here), 0)
    secrets = source.secrets()
    return Masthead(
        title=line(state.rules.title, secrets),
        run=opened.run,
        seq=state.seq,
        sign=t(state, shown_at)[:2],
        t=t(state, shown_at)[2:],
        local=local(state, shown_at),
        stage=clock.stage,
        stage_word="Paused" if clock.paused and not over else STAGE_WORDS[clock.stage],
        kicker=f"{strip[number - 1].label} of {len(strip)}"
        if number and " " in strip[number - 1].label
        else "",
        to_go=_to_go(clock.stage, end, at, clock.paused),
        parts=strip,
        stages=tuple((STAGE_WORDS[stage], how) for stage, how in zip(STAGES, words, strict=True)),  # type: ignore[misc]
        names=tuple(
            Name(
                seat.corner,
                line(seat.name, secrets, 60),
                line(seat.lab, secrets, 60),
                _alias(source, seat.corner),
            )
            for seat in state.corners.values()
        ),
        unit=unit_of(state),
        slots=unit_of(state) == "slot",
        isolation=opened.isolation,
        paused=clock.paused and not over,
        live=source.live and not over,
        at=shown_at // 1000,
        start=clock.start // 1000,
        end=end // 1000 if end is not None else 0,
        seconds=is_short(state),
    )


def _alias(source: Source, corner: str) -> bool:
    """Whether a corner's name stands for a sealed one, also of an entrant that joined late."""
    state = source.view().state
    name = state.corners[corner].name
    aliases = {rule.alias for rule in state.rules.entrants if rule.alias}
    return name in aliases or any(one.name and one.shown == name for one in source.secrets())


def _to_go(stage: str, end: Moment | None, at: int, paused: bool) -> str:
    if stage == "results":
        return "It is over"
    if end is None:
        return "Paused: the end moves on" if paused else ""
    said = {"announced": "to the start", "running": "to go", "closing": "at most", "judging": "at most"}
    return f"{span(end - at)} {said[stage]}"


def _strip(start: Moment, end: int, at: int, stage: str) -> tuple[Part, ...]:
    """The running stage in three to twelve stretches, all of one length but the last."""
    whole = max(1, end - start)
    fits = ((one, noun) for one, noun in _LENGTHS if 3 <= -(-whole // one) <= (12 if noun else 7))
    length, noun = next(fits, (-(-whole // 6), ""))
    begins = list(range(0, whole, length))
    if (
        len(begins) > 1 and whole - begins[-1] < length // 5
    ):  # a pause has moved the end a little: no stretch of its own
        begins.pop()
    over = stage not in ("announced", "running")
    parts = []
    for number, begin in enumerate(begins, 1):
        size = (begins[number] if number < len(begins) else whole) - begin
        gone = 1.0 if over else (at - start - begin) / size
        here = stage == "running" and 0 <= gone < 1
        label = f"{noun} {number}" if noun else f"T+{show_hours(begin, seconds=length < MINUTE)}"
        parts.append(Part(label, per_cent(size / whole), per_cent(gone), here))
    return tuple(parts)
