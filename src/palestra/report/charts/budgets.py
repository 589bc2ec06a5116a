"""Budgets used, against each entrant's own even pace: two lists of bars, one scale in each; HTML out."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from markupsafe import Markup

from palestra.events.public import show_time
from palestra.report.drawing import Chart, part, who
from palestra.report.evidence import Evidence
from palestra.report.facts import Budget, CornerFacts, Facts
from palestra.report.pace import ahead, places_from_pace
from palestra.report.words import capital, named, number, percent
from palestra.rules.units import show_dollars

Say = Callable[[int], str]


def draw(facts: Facts, evidence: Evidence) -> Chart:
    """Dark beyond the pace, hatched for those that are done: they have no pace any more (S46)."""
    time = f"{capital(facts.unit)}-time"
    api = [(seat, seat.api) for seat in facts.corners]
    gpu = [(seat, seat.gpu) for seat in facts.corners]
    body = Markup('<div class="two">{}{}</div>').format(
        _list(facts, evidence, "API credit", api, show_dollars),
        _list(facts, evidence, time, gpu, lambda amount: show_time(amount, facts.unit)),
    )
    return Chart("budgets", "Budgets", _title(facts, api, gpu), _sub(facts), body)


def leaders(facts: Facts, budgets: list[tuple[CornerFacts, Budget | None]]) -> list[str]:
    """Corners ahead of their own even pace, unrounded (S09)."""
    return [
        seat.corner for seat, budget in budgets
        if budget and seat.pace and not seat.done and facts.is_running and ahead(budget.spent, budget.limit, seat.pace)
    ]  # fmt: skip


def _title(
    facts: Facts, api: list[tuple[CornerFacts, Budget | None]], gpu: list[tuple[CornerFacts, Budget | None]]
) -> str:
    time = f"{facts.unit}-time"
    if not facts.is_running:
        used = [(Fraction(one.spent, one.limit), seat.corner) for seat, one in gpu if one and one.limit]
        if not used or max(used)[0] == 0:
            return f"Nobody has used any {time}"
        share, corner = max(used)
        return (
            f"{named(facts, [corner])} used most of its {time}: {percent(share.numerator, share.denominator)}"
        )
    fast, busy = leaders(facts, api), leaders(facts, gpu)
    if not fast and not busy:
        return "Nobody is ahead of the even pace"

    def say(corners: list[str]) -> str:
        return (
            named(facts, corners) if 0 < len(corners) <= 2 else number(len(corners)) if corners else "nobody"
        )

    verbs = {True: "is", False: "are"}
    return (
        f"{capital(say(fast))} {verbs[len(fast) < 2]} ahead of the even pace on API credit, "
        f"{say(busy)} on {time}"
    )


def _sub(facts: Facts) -> str:
    gone = {(seat.pace.gone, seat.pace.whole) for seat in facts.corners if seat.pace and not seat.done}
    if not facts.is_running:
        return "The running stage is over. Shares are of each entrant’s whole allowance."
    if len(gone) == 1:
        one, whole = next(iter(gone))
        return f"The tick is the share of time gone, {percent(one, whole)}. Bars beyond it, dark, would run out early."
    return "Each tick is the share of that entrant’s own time that is gone. Bars beyond it, dark, would run out early."


def _list(
    facts: Facts, evidence: Evidence, what: str, budgets: list[tuple[CornerFacts, Budget | None]], say: Say
) -> Markup:
    there = [(seat, one) for seat, one in budgets if one is not None]
    there.sort(key=lambda pair: (-Fraction(pair[1].spent, max(1, pair[1].limit)), pair[0].corner))
    shares = [Fraction(one.spent + one.held, max(1, one.limit)) for _, one in there]
    shares += [
        Fraction(seat.pace.gone, seat.pace.whole) for seat, _ in there if _has_tick(facts, seat) and seat.pace
    ]
    top = max([*shares, Fraction(1, 1000)])
    places = max((_places(facts, seat, one) for seat, one in there), default=1)
    rows = [_row(facts, evidence, what, seat, one, say, top, places) for seat, one in there]
    absent = [_blank(facts, seat) for seat, one in budgets if one is None]
    limits = {one.limit for _, one in there}
    of = f", of {say(next(iter(limits)))} each" if len(limits) == 1 and len(there) > 1 else ""
    if len(limits) == 1 and len(there) == 1:
        of = f", of {say(next(iter(limits)))}"
    ticked = " ticked" if any(_has_tick(facts, seat) for seat, _ in there) else ""
    return Markup('<div class="pace{}"><h4>{}{}</h4><ul>{}</ul></div>').format(
        ticked, what, of, Markup().join([*rows, *absent])
    )


def _has_tick(facts: Facts, seat: CornerFacts) -> bool:
    return facts.is_running and seat.pace is not None and not seat.done


def _places(facts: Facts, seat: CornerFacts, one: Budget) -> int:
    return places_from_pace(one.spent, one.limit, seat.pace if _has_tick(facts, seat) else None)


def _row(
    facts: Facts,
    evidence: Evidence,
    what: str,
    seat: CornerFacts,
    one: Budget,
    say: Say,
    top: Fraction,
    places: int,
) -> Markup:
    ticked = _has_tick(facts, seat)
    over = ticked and seat.pace is not None and ahead(one.spent, one.limit, seat.pace)
    style = "over" if over else "done" if seat.done else ""
    whole = one.limit * top.numerator
    tick = Markup("")
    if ticked and seat.pace is not None:
        place = part(seat.pace.gone * top.denominator, seat.pace.whole * top.numerator)
        tick = Markup('<b class="tick" style="left:{}"></b>').format(place)
    held = (
        Markup('<i class="held" style="width:{}"></i>').format(part(one.held * top.denominator, whole))
        if one.held
        else ""
    )
    shown = Markup("{} <small>{}</small>").format(say(one.spent), percent(one.spent, one.limit, places))
    return Markup(
        '<li class="{}">{}<span class="tr"><i class="bar" style="width:{}" data-v="{}"></i>{}{}</span>{}</li>'
    ).format(
        style,
        who(facts, seat.corner),
        part(one.spent * top.denominator, whole),
        one.spent,
        held,
        tick,
        evidence.link(shown, one.rows(), f"{what} spent by {seat.corner}", "v"),
    )


def _blank(facts: Facts, seat: CornerFacts) -> Markup:
    return Markup(
        '<li class="absent">{}<span class="tr"></span><span class="v">not started</span></li>'
    ).format(who(facts, seat.corner))
