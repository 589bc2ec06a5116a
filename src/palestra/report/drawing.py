"""What charts are made of: a chart as a page shows it, and positions on an axis of time. Facts in, short markup out."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.report.facts import Facts, Stretch
from palestra.report.words import own
from palestra.rules.units import DAY, HOUR, MINUTE, SECOND, rounded

_STEPS = (
    SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY,
)  # fmt: skip
MOST_TICKS = 9


class Chart(msgspec.Struct, frozen=True):
    """A chart with the words around it. Its title states what is to be seen."""

    name: str
    eyebrow: str
    title: str
    sub: str
    body: Markup


class Axis(msgspec.Struct, frozen=True):
    """Time from left to right, over the part of the window that the run has come to."""

    since: int
    until: int

    def x(self, at: int) -> str:
        """Per cent from the left, as CSS wants it."""
        return part(min(max(at, self.since), self.until) - self.since, self.until - self.since)

    def width(self, since: int, until: int) -> str:
        """Per cent of the whole width between two instants."""
        first, last = (min(max(at, self.since), self.until) for at in (since, until))
        return part(max(0, last - first), self.until - self.since)

    def share(self, at: int) -> float:
        """0 to 1, for what is placed by eye: labels."""
        return (at - self.since) / max(1, self.until - self.since)


def axis(facts: Facts) -> Axis:
    """From the window's start, but not before the competition's, to the report's instant, but not beyond the last copies."""
    since = max(facts.window.since, facts.start) if facts.at > facts.start else facts.window.since
    judging = next((one.since.at for one in facts.stages if one.name == "judging"), facts.at)
    until = judging if since < judging < facts.at else facts.at
    return Axis(since, max(until, since + SECOND))


def part(amount: int, whole: int) -> str:
    """`12.3456%`: widths are exact to a thousandth of a per cent, so that a bar tells the truth."""
    return f"{rounded(100 * amount, max(1, whole), 4).replace(',', '')}%"


def ticks(facts: Facts, line: Axis) -> list[tuple[str, str]]:
    """(place, label) of round instants, nine at most: hours and minutes, seconds only where they differ."""
    span = line.until - line.since
    step = next((one for one in _STEPS if span // one <= MOST_TICKS), _STEPS[-1])
    first = -(-(line.since - facts.start) // step) * step
    return [
        (line.x(facts.start + offset), _label(offset, step))
        for offset in range(first, line.until - facts.start + 1, step)
    ]


def _label(offset: int, step: int) -> str:
    seconds = abs(offset) // SECOND
    text = f"{seconds // 3600}:{seconds // 60 % 60:02d}"
    return f"{'-' if offset < 0 else ''}{text}" + (f":{seconds % 60:02d}" if step < MINUTE else "")


def plane(facts: Facts, line: Axis) -> Markup:
    """What lies behind the marks: round instants, pauses, and the time after the running stage."""
    marks = [Markup('<i style="left:{}"></i>').format(place) for place, _ in ticks(facts, line)]
    stretches = [*facts.pauses]
    over = [one for one in facts.stages if one.name == "closing"]
    if over and line.since < over[0].since.at < line.until:
        stretches.append(Stretch("after the running stage", over[0].since))
    bands = [_band(one, line) for one in stretches]
    return Markup('<div class="plane" aria-hidden="true">{}</div>').format(Markup().join([*bands, *marks]))


def _band(one: Stretch, line: Axis) -> Markup:
    until = one.until.at if one.until else line.until
    style = "pause" if one.name == "paused" else "over"
    wide = line.share(until) - line.share(one.since.at) > 0.07
    return Markup('<b class="{}" style="left:{};width:{}"><span>{}</span></b>').format(
        style,
        line.x(one.since.at),
        line.width(one.since.at, until),
        ("pause" if style == "pause" else "time up") if wide else "",
    )


def scale(facts: Facts, line: Axis) -> Markup:
    """The axis below."""
    labels = [
        Markup('<span style="left:{}">{}</span>').format(place, label) for place, label in ticks(facts, line)
    ]
    return Markup('<div class="axis" aria-hidden="true">{}</div>').format(Markup().join(labels))


def who(facts: Facts, corner: str) -> Markup:
    """A corner's letter and its name."""
    return Markup('<span class="who"><b class="cn c-{0}">{0}</b><span>{1}</span></span>').format(
        corner, own(facts.corner(corner).name, 40)
    )
