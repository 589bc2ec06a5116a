"""Budgets used, against each entrant's own even pace: two lists of bars, one scale in each; HTML out."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import msgspec
from markupsafe import Markup

from palestra.report.columns import Column, dollars, gpu_time
from palestra.report.drawing import Chart, part, who
from palestra.report.evidence import Evidence
from palestra.report.facts import Budget, CornerFacts, Facts
from palestra.report.pace import ahead, places_from_pace
from palestra.report.words import capital, named, number, percent, show_gpu_time
from palestra.rules.units import show_dollars


class Side(msgspec.Struct, frozen=True):
    """One of the two budgets, of all corners; most used first."""

    what: str
    used: tuple[tuple[CornerFacts, Budget], ...]
    blank: tuple[CornerFacts, ...]
    """Those that hadn't started: no bar, and no nought (S53)."""
    column: Column
    limit: Callable[[int], str]


def draw(facts: Facts, evidence: Evidence) -> Chart:
    """Dark beyond the pace, hatched for those that are done: they have no pace any more (S46)."""
    api, gpu = sides(facts)
    body = Markup('<div class="two">{}{}</div>').format(
        _list(facts, evidence, api), _list(facts, evidence, gpu)
    )
    return Chart("budgets", "Budgets", _title(facts, api, gpu), _sub(facts), body)


def sides(facts: Facts) -> tuple[Side, Side]:
    """API credit and GPU-time."""
    blank = tuple(seat for seat in facts.corners if seat.api is None)
    api = [(seat, seat.api) for seat in facts.corners if seat.api is not None]
    gpu = [(seat, seat.gpu) for seat in facts.corners if seat.gpu is not None]
    slots = gpu_time([one.spent for _, one in gpu], [one.limit for _, one in gpu], facts.unit)
    return (
        Side("API credit", _sorted(api), blank, dollars([one.spent for _, one in api]), show_dollars),
        Side(f"{facts.unit}-time", _sorted(gpu), blank, slots, lambda amount: show_gpu_time(facts, amount)),
    )


def _sorted(used: list[tuple[CornerFacts, Budget]]) -> tuple[tuple[CornerFacts, Budget], ...]:
    return tuple(sorted(used, key=lambda pair: (-share(pair[1]), pair[0].corner)))


def share(one: Budget) -> Fraction:
    """Unrounded."""
    return Fraction(one.spent, max(1, one.limit))


def paced(facts: Facts, seat: CornerFacts) -> bool:
    """Whether there is a pace to compare with."""
    return facts.is_running and seat.pace is not None and not seat.done


def leaders(facts: Facts, side: Side) -> list[str]:
    """Corners ahead of their own even pace, unrounded (S09)."""
    return [
        seat.corner for seat, one in side.used
        if seat.pace is not None and paced(facts, seat) and ahead(one.spent, one.limit, seat.pace)
    ]  # fmt: skip


def _title(facts: Facts, api: Side, gpu: Side) -> str:
    if not facts.is_running:
        seat, one = gpu.used[0] if gpu.used else (None, None)
        if seat is None or one is None or not one.spent:
            return f"Nobody has used any {gpu.what}"
        return f"{named(facts, [seat.corner])} used most of its {gpu.what}: {percent(one.spent, one.limit)}"
    fast, busy = leaders(facts, api), leaders(facts, gpu)
    if not fast and not busy:
        return "Nobody is ahead of the even pace"
    verb = "are" if len(fast) > 1 else "is"
    return f"{capital(_some(facts, fast))} {verb} ahead of the even pace on API credit, {_some(facts, busy)} on {gpu.what}"


def _some(facts: Facts, corners: list[str]) -> str:
    if not corners:
        return "nobody"
    return named(facts, corners) if len(corners) <= 2 else number(len(corners))


def _sub(facts: Facts) -> str:
    hatched = " Hatched: done." if any(seat.finished or seat.removed for seat in facts.corners) else ""
    if any(budget.held for seat in facts.corners for budget in (seat.api, seat.gpu) if budget):
        hatched = f" Pale: held for what is open.{hatched}"
    gone = {(seat.pace.gone, seat.pace.whole) for seat in facts.corners if seat.pace and paced(facts, seat)}
    if not facts.is_running:
        return f"The running stage is over. Shares are of each entrant’s whole allowance.{hatched}"
    if len(gone) == 1:
        one, whole = next(iter(gone))
        return f"The tick is the share of time gone, {percent(one, whole)}. Bars beyond it, dark, would run out early.{hatched}"
    return f"Each tick is the share of that entrant’s own time that is gone. Bars beyond it, dark, would run out early.{hatched}"


def _list(facts: Facts, evidence: Evidence, side: Side) -> Markup:
    reach = [Fraction(one.spent + one.held, max(1, one.limit)) for _, one in side.used]
    reach += [
        Fraction(seat.pace.gone, seat.pace.whole) for seat, _ in side.used if seat.pace and paced(facts, seat)
    ]
    top = max([*reach, Fraction(1, 1000)])
    places = max((_places(facts, seat, one) for seat, one in side.used), default=1)
    rows = [_row(facts, evidence, side, pair, top, places) for pair in side.used]
    rows += [
        Markup('<li class="absent">{}<span class="tr"></span><span class="v">not started</span></li>').format(
            who(facts, seat.corner)
        )
        for seat in side.blank
    ]
    limits = {one.limit for _, one in side.used}
    of = (
        f", of {side.limit(next(iter(limits)))}{' each' if len(side.used) > 1 else ''}"
        if len(limits) == 1
        else ""
    )
    ticked = " ticked" if any(paced(facts, seat) for seat, _ in side.used) else ""
    return Markup('<div class="pace{}"><h4>{}{}</h4><ul>{}</ul></div>').format(
        ticked, capital(side.what), of, Markup().join(rows)
    )


def _places(facts: Facts, seat: CornerFacts, one: Budget) -> int:
    return places_from_pace(one.spent, one.limit, seat.pace if paced(facts, seat) else None)


def _row(
    facts: Facts, evidence: Evidence, side: Side, pair: tuple[CornerFacts, Budget], top: Fraction, places: int
) -> Markup:
    seat, one = pair
    pace = seat.pace if paced(facts, seat) else None
    style = "done" if seat.done else "over" if pace and ahead(one.spent, one.limit, pace) else ""
    whole = one.limit * top.numerator
    held, tick = Markup(), Markup()
    if one.held:
        held = Markup('<i class="held" style="width:{}"></i>').format(part(one.held * top.denominator, whole))
    if pace:
        place = part(pace.gone * top.denominator, pace.whole * top.numerator)
        tick = Markup('<b class="tick" style="left:{}"></b>').format(place)
    shown = Markup("{} <small>{}</small>").format(
        side.column.show(one.spent), percent(one.spent, one.limit, places)
    )
    return Markup(
        '<li class="{}">{}<span class="tr"><i class="bar" style="width:{}" data-v="{}"></i>{}{}</span>{}</li>'
    ).format(
        style,
        who(facts, seat.corner),
        part(one.spent * top.denominator, whole),
        one.spent,
        held,
        tick,
        evidence.link(shown, one.rows(), f"{capital(side.what)} spent by {seat.corner}", "v"),
    )
