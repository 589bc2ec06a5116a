"""A report as it is read, section by section: facts and findings in, a page of plain structs out, ready for templates."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.report.agents import AgentPart, agent_parts, pieces
from palestra.report.charts import CHARTS, find_chart
from palestra.report.detectors import detect
from palestra.report.drawing import Axis, Chart, ticks
from palestra.report.evidence import Cited, Evidence
from palestra.report.facts import Facts
from palestra.report.findings import Finding, choose
from palestra.report.method import definitions, promises
from palestra.report.standings import Standings, standings
from palestra.report.visible import visible
from palestra.report.words import capital, own, percent, plural, show_gpu_time
from palestra.rules.units import show_dollars, show_hours


class Card(msgspec.Struct, frozen=True):
    """A key finding as a card."""

    id: str
    corners: tuple[str, ...]
    big: Markup
    title: str
    said: Markup
    positive: bool


class LaterLine(msgspec.Struct, frozen=True):
    """A fact after the snapshot."""

    t: str
    corner: str
    name: str
    text: str
    row: int


class Strip(msgspec.Struct, frozen=True):
    """The running stage as a bar: what was gone before the window, and the window."""

    before: str
    here: str
    labels: tuple[tuple[str, str, str], ...]


class Page(msgspec.Struct, frozen=True):
    """Everything that templates show."""

    facts: Facts
    kicker: str
    title: str
    head: str
    stand: Markup
    clock: str
    over: bool
    of: str
    gone: str
    local: str
    strip: Strip
    cards: tuple[Card, ...]
    others: tuple[Card, ...]
    charts: tuple[Chart, ...]
    board: Standings
    agents: tuple[AgentPart, ...]
    later: tuple[LaterLine, ...]
    definitions: tuple[tuple[str, str], ...]
    promises: tuple[tuple[str, str], ...]
    evidence: tuple[Cited, ...]


def compose(facts: Facts) -> Page:
    """The whole report."""
    ranked = detect(facts)
    chosen = choose(ranked)
    evidence = Evidence(facts)
    stand = _stand(facts, evidence)
    top = next((one for one in ranked if one in chosen), None)
    rest = [one for one in ranked if one not in chosen]
    cards = tuple(_card(one, evidence) for one in chosen)
    others = tuple(_card(one, evidence) for one in rest)
    charts = tuple(find_chart(name)(facts, evidence) for name in CHARTS)
    board = standings(facts, evidence)
    agents = agent_parts(facts, ranked, evidence)
    over = facts.at >= facts.ends
    return Page(
        facts=facts,
        kicker=facts.window.name,
        title=own(facts.title, 80),
        head=top.text(top.head) if top else _quiet(facts),
        stand=stand,
        clock=facts.t(facts.at).removeprefix("T+"),
        over=over,
        of=f"ended at {facts.t(facts.ends)}" if over else f"of {show_hours(facts.ends - facts.start, seconds=facts.short)}",
        gone=f"{percent(facts.at - facts.start, facts.ends - facts.start)} of the time gone",
        local=facts.zone.show(facts.at, seconds=facts.short),
        strip=_strip(facts),
        cards=cards,
        others=others,
        charts=charts,
        board=board,
        agents=agents,
        later=_later(facts),
        definitions=definitions(facts),
        promises=promises(facts),
        evidence=evidence.listed(),
    )  # fmt: skip


def _card(one: Finding, evidence: Evidence) -> Card:
    figure = one.figure(one.big)
    what = f"{one.title}: {figure.shown}"
    shown = Markup("<i>T+</i>{}").format(figure.shown[2:]) if figure.shown.startswith("T+") else figure.shown
    big = evidence.link(shown, figure.rows, what)
    return Card(one.id, one.corners, big, one.title, pieces(one, one.said, evidence), one.positive)


def _quiet(facts: Facts) -> str:
    """The headline of a window in which no detector saw anything."""
    if facts.at <= facts.start:
        return "It hasn’t started yet."
    return f"{capital(plural(len(facts.board.lines), 'agent'))} at work, and nothing out of the ordinary."


def _stand(facts: Facts, evidence: Evidence) -> Markup:
    """Who, with what, and how far they had come."""
    seats = [seat for seat in facts.corners if seat.api is not None]
    many = len(seats)
    said = f"{capital(plural(many, 'agent'))}, one base model"
    budgets = {(seat.api.limit, seat.gpu.limit) for seat in seats if seat.api and seat.gpu}
    if len(budgets) == 1:
        api, gpu = next(iter(budgets))
        said += f", {show_dollars(api)} and {show_gpu_time(facts, gpu)}{' each' if many > 1 else ''}"
    jobs = [job.submitted.row for seat in seats for job in facts.jobs_of(seat.corner)]
    asked = [one.requested.row for seat in seats for one in facts.nominations_of(seat.corner)]
    up = [one.decided.row for one in facts.nominations if one.current and one.decided]
    closed = f"{len(up)} of {many}" if many > 1 else "it" if up else "no model"
    had = "had a model up" if many > 1 or up else "was up"
    return Markup("{}. {} and {} in this window; {} {} when it closed.").format(
        said,
        evidence.link(capital(plural(len(jobs), "job")), jobs, "Jobs of all"),
        evidence.link(plural(len(asked), "nomination"), asked, "Nominations of all"),
        evidence.link(closed, up, "Current nominations"),
        had,
    )


def _strip(facts: Facts) -> Strip:
    line = Axis(facts.start, max(facts.ends, facts.start + 1))
    return Strip(
        before=line.x(facts.window.since),
        here=line.width(facts.window.since, facts.at),
        labels=tuple((place, label, _side(float(place.rstrip("%")))) for place, label in ticks(facts, line)),
    )


def _later(facts: Facts) -> tuple[LaterLine, ...]:
    names = {seat.corner: own(seat.name, 60) for seat in facts.corners}
    return tuple(
        LaterLine(facts.t(one.at), one.corner, names.get(one.corner, ""), visible(one.text), one.seq)
        for one in facts.later
    )


def _side(place: float) -> str:
    """Labels at the two ends stand inside them."""
    return "a" if place < 3 else "z" if place > 97 else ""
