"""The first page: everything on one instant. A source and the ring's latest events in, one struct for the template out."""

from __future__ import annotations

from collections import Counter

import msgspec
from markupsafe import Markup

from palestra.events.public import PublicEvent
from palestra.report.scoreboard import Line, Score, Scoreboard, scoreboard
from palestra.rules.units import HOUR, SECOND, show_dollars, show_duration, show_share, show_size
from palestra.state.catalog import NominationCard, View
from palestra.state.queue import HOUSE
from palestra.web.pages.figures import (
    Meter,
    Scale,
    is_short,
    meters,
    per_cent,
    plural,
    scale_of,
    span,
    t,
    unit_of,
    units,
)
from palestra.web.pages.headline import Headline, headline
from palestra.web.pages.masthead import Masthead, masthead
from palestra.web.pages.nodes import Drawn, Waiting, nodes, queue
from palestra.web.pages.source import Source
from palestra.web.pages.text import line, visible

LATE = 5 * SECOND
"""A corner taken this long after the start is a late joiner's; the others sit down as the run opens."""


class Fact(msgspec.Struct, frozen=True):
    """A figure of the row below the clock."""

    figure: str
    of: str
    name: str
    said: str
    to: str
    hot: bool = False


class Result(msgspec.Struct, frozen=True):
    """An exam's score; places in per cent of the scale."""

    share: str
    counts: str
    at: float
    low: float
    high: float
    interval: str


class Row(msgspec.Struct, frozen=True):
    """A corner on the scoreboard."""

    corner: str
    name: Markup
    lab: Markup
    alias: bool
    late: str
    done: bool
    kinds: tuple[str, ...]
    api: Meter
    gpu: Meter
    jobs: int
    nominations: int
    current: Markup
    since: str
    pending: str
    state: str
    """`run`, `wait`, `idle` or `done`."""
    now: str
    rank: str
    result: Result | None
    unscored: str


class Tick(msgspec.Struct, frozen=True):
    """A line of the ticker."""

    seq: int
    t: str
    corner: str
    text: Markup
    mark: str
    about: str
    head: str = ""
    """A new stretch of time begins with this line."""


class Overview(msgspec.Struct, frozen=True):
    """All of the page."""

    head: Masthead
    headline: Headline
    facts: tuple[Fact, ...]
    rows: tuple[Row, ...]
    base: Result | None
    scored: bool
    exam_scale: str
    time: str
    over: bool
    allowance: str
    api_spent: str
    gpu_spent: str
    jobs: int
    nominations: int
    pace_note: str
    nodes: tuple[Drawn, ...]
    measured: bool
    queue: tuple[Waiting, ...]
    ticks: tuple[Tick, ...]
    rules: tuple[tuple[str, str], ...]


def overview(source: Source, latest: list[PublicEvent]) -> Overview:
    """As of now."""
    view, head = source.view(), masthead(source)
    state = view.state
    board = scoreboard(state, view.catalog)
    drawn, waits = nodes(source), queue(source)
    scored = any(line.score is not None for line in board.lines) or board.base is not None
    lines = board.lines if scored else sorted(board.lines, key=lambda one: one.corner)
    ruler, scale = _ruler(board), scale_of(state)
    rows = tuple(_row(source, view, head, one, board.lines, ruler) for one in lines)
    examined = state.clock.stage in ("judging", "results")
    return Overview(
        head=head,
        headline=_shown(source, headline(view)),
        facts=_exam_facts(view, board, scale) if examined else _facts(view, head, drawn, waits),
        rows=rows,
        base=result(board.base, ruler),
        scored=scored,
        exam_scale=f"{ruler[0]} to {ruler[1]} %",
        time=scale.heading,
        over=state.clock.stage == "results",
        allowance=_rules(view, head)[0][1],
        api_spent=scale.dollars(board.api_spent),
        gpu_spent=scale.time(board.gpu_spent),
        jobs=sum(row.jobs for row in rows),
        nominations=sum(row.nominations for row in rows),
        pace_note=_pace_note(rows),
        nodes=drawn,
        measured=any(block.used is not None for node in drawn for block in node.blocks),
        queue=waits,
        ticks=ticks(source, latest),
        rules=(*_joining(source, view), *_rules(view, head)),
    )


def _shown(source: Source, said: Headline) -> Headline:
    secrets = source.secrets()
    return Headline(line(said.head, secrets), line(said.stand, secrets))


def _ruler(board: Scoreboard) -> tuple[int, int]:
    """The stretch of the percentage scale on which all scores and their intervals lie, in tens."""
    scores = [one for one in (board.base, *(line.score for line in board.lines)) if one is not None]
    low = min((one.low for one in scores), default=0.0)
    high = max((one.high for one in scores), default=1.0)
    return int(10 * low) * 10, min(100, int(10 * high + 1) * 10)


def _row(
    source: Source, view: View, head: Masthead, of: Line, everyone: tuple[Line, ...], ruler: tuple[int, int]
) -> Row:
    state, secrets = view.state, source.secrets()
    seat = state.corners[of.corner]
    api, gpu = meters(state, view.catalog, of.corner, view.at)
    mine = [card for card in view.catalog.nominations.values() if card.corner == of.corner]
    current = view.catalog.nominations.get(of.current)
    kinds = dict.fromkeys(
        card.inspection.kind for card in mine if card.inspection and card.state == "accepted"
    )
    name = next(one for one in head.names if one.corner == of.corner)
    how, now = _now(view, of.corner)
    shared = sum(one.rank == of.rank for one in everyone)
    return Row(
        corner=of.corner,
        name=name.name,
        lab=name.lab,
        alias=name.alias,
        late=t(state, seat.seated) if seat.seated > state.clock.start + LATE else "",
        done=of.finished is not None,
        kinds=tuple(kinds),
        api=api,
        gpu=gpu,
        jobs=of.jobs,
        nominations=of.nominations,
        current=line(current.label or current.nomination, secrets, 60) if current else Markup(),
        since=t(state, of.current_since),
        pending=_pending(mine),
        state=how,
        now=now,
        rank="" if of.rank is None else f"{of.rank}{'=' if shared > 1 else ''}",
        result=result(of.score, ruler),
        unscored="" if of.score else of.unscored_because.replace("_", " "),
    )


def result(score: Score | None, ruler: tuple[int, int]) -> Result | None:
    """A share of the exam with its interval, placed on a ruler."""
    if score is None:
        return None
    low, high = ruler

    def place(share: float) -> float:
        return per_cent((100 * share - low) / max(1, high - low))

    return Result(
        share=show_share(score.correct, score.n),
        counts=f"{score.correct:,} of {score.n:,}",
        at=place(score.correct / score.n if score.n else 0),
        low=place(score.low),
        high=place(score.high),
        interval=f"{100 * score.low:.1f} to {100 * score.high:.1f}",
    )


def _pending(mine: list[NominationCard]) -> str:
    words = {"requested": "is next to be copied", "copying": "is copied", "validating": "is validated"}
    waiting = [card for card in mine if card.state in words]
    return f"{waiting[-1].nomination} {words[waiting[-1].state]}" if waiting else ""


def _now(view: View, corner: str) -> tuple[str, str]:
    """What a corner does just now, the most telling first."""
    state = view.state
    seat = state.corners[corner]
    if seat.finished is not None:
        return "done", f"done {t(state, seat.finished)}"
    if state.clock.stage != "running":
        return "done", "not started" if state.clock.stage == "announced" else "time is up"
    if state.clock.paused:
        return "idle", "paused"
    waits = [job for job in state.jobs.values() if job.corner == corner and not job.attempt]
    runs = [one for one in state.attempts.values() if one.corner == corner]
    if runs:
        more = f", {len(waits)} waiting" if waits else ""
        return "run", units(sum(len(one.gpus) for one in runs), unit_of(state)) + more
    if waits:
        return "wait", f"waits {span(view.at - min(job.submitted for job in waits))}"
    if any(call.corner == corner for call in state.calls.values()):
        return "run", "asks its model"
    if any(session.corner == corner for session in state.sessions.values()):
        return "idle", "at work, no job"
    return "idle", "credit spent" if seat.broke else "no session"


def _exam_facts(view: View, board: Scoreboard, scale: Scale) -> tuple[Fact, ...]:
    """Once everything has stopped, what counts is the exam."""
    scored = [line for line in board.lines if line.score is not None]
    best = scored[0].score if scored else None
    asked = f"{view.state.rules.exam.questions:,} questions are asked"
    calls = sum(tally.calls for tally in view.catalog.tallies.values())
    base = show_share(board.base.correct, board.base.n) if board.base else ""
    jobs = sum(line.jobs for line in board.lines)
    return (
        Fact(
            show_share(best.correct, best.n) if best else "–",
            "",
            "Best score",
            f"{best.correct:,} of {best.n:,} questions" if best else asked,
            "#board",
        ),
        Fact(
            f"{len(scored)}",
            f"of {len(board.lines)}",
            "Corners scored",
            f"The base model has {base}" if base else "The base model is examined too",
            "#board",
        ),
        Fact(
            scale.dollars(board.api_spent),
            "",
            "API credit spent",
            f"By all, in {calls:,} model calls",
            "#board",
        ),
        Fact(scale.time(board.gpu_spent), "", scale.heading, f"By all, in {jobs:,} jobs", "#board"),
    )


def _facts(
    view: View, head: Masthead, drawn: tuple[Drawn, ...], waits: tuple[Waiting, ...]
) -> tuple[Fact, ...]:
    state = view.state
    noun = "Slot" if head.slots else "GPU"
    total, busy = sum(node.gpus for node in drawn), sum(node.busy for node in drawn)
    where = f"On {plural(len(drawn), 'node')}" if len(drawn) > 1 else f"On {drawn[0].name}"
    theirs = [one for one in waits if one.corner != HOUSE]
    longest = f"Longest: {theirs[0].job}, {theirs[0].waited}" if theirs else "The queue is empty"
    made = list(view.catalog.nominations.values())
    last = f"Last: {made[-1].nomination}, {t(state, made[-1].requested)}" if made else "None so far"
    third = Fact(f"{len(made)}", "", "Nominations", last, "#board")
    stranded = sum(node.free for node in drawn if node.stranded)
    if head.paused:
        fourth = Fact("Paused", "", "By the organiser", "Running jobs go on and pay", "#events", hot=True)
    elif stranded:
        named = next(node.name for node in drawn if node.stranded)
        fourth = Fact(
            f"{stranded}",
            "",
            f"{noun}s stranded",
            f"{named}: too little memory beside",
            "#cluster",
            hot=True,
        )
    elif state.alarms:
        fourth = Fact(
            f"{len(state.alarms)}", "", "Alarms open", "The organiser has been told", "#events", hot=True
        )
    else:
        calls = sum(tally.calls for tally in view.catalog.tallies.values())
        fourth = Fact(f"{calls:,}", "", "Model calls", f"{len(state.calls)} open now", "#events")
    return (
        Fact(f"{busy}", f"of {total}", f"{noun}s in use", where, "#cluster"),
        Fact(f"{len(theirs)}", "", "Jobs waiting", longest, "#queue", hot=False),
        third,
        fourth,
    )


def _pace_note(rows: tuple[Row, ...]) -> str:
    """Where the even pace stands, for all at once where they have the same."""
    paces = Counter(row.api.pace for row in rows if row.api.pace is not None)
    if not paces:
        return ""
    common, _ = paces.most_common(1)[0]
    apart = [f"{row.api.pace} % for {row.corner}" for row in rows if row.api.pace not in (None, common)]
    later = f"; {', '.join(apart)}, which began later" if apart else ""
    return f"even pace: {common} % of its own time is gone{later}. A strong bar is ahead of it, a pale end is held."


def ticks(source: Source, latest: list[PublicEvent]) -> tuple[Tick, ...]:
    """Events as lines, newest first, with a heading for each hour or minute."""
    state = source.view().state
    length, noun = (60_000_000, "Minute") if is_short(state) else (HOUR, "Hour")
    shown, last = [], None
    for event in latest:
        stretch = (event.at - state.clock.start) // length
        head = "" if stretch == last else f"{noun} {stretch + 1}" if stretch >= 0 else "Before the start"
        last = stretch
        about = event.about if event.about and not event.about.startswith(HOUSE) else ""
        clock = t(state, event.at).removeprefix("T+")
        shown.append(Tick(event.seq, clock, event.corner, visible(event.text), event.mark, about, head))
    return tuple(shown)


def _joining(source: Source, view: View) -> list[tuple[str, str]]:
    """Entrants that are announced and not seated yet."""
    return [
        (
            "Joins soon",
            line(f"{one.name} takes corner {one.corner} at {t(view.state, one.starts)}", source.secrets()),
        )
        for one in view.state.announced.values()
    ]


def _rules(view: View, head: Masthead) -> tuple[tuple[str, str], ...]:
    """What everyone may use, in a few lines."""
    rules = view.state.rules
    allowance, jobs, scale = rules.allowance, rules.jobs, scale_of(view.state)
    return (
        ("Allowance", f"{show_dollars(allowance.api_credit)} of API credit and {scale.allowed_time(allowance.gpu_time)} {scale.short} for each corner"),
        ("Time", f"{show_duration(rules.stages.running)} running, then at most {show_duration(rules.stages.closing)} for copies"),
        ("A job", f"At most {units(jobs.gpus_per_job, head.unit)}, {show_size(jobs.memory_per_gpu)} of memory each, {show_duration(jobs.longest)}"),
        ("At once", f"A corner’s running jobs hold at most {units(jobs.gpus_running, head.unit)}"),
        ("Exam", f"{rules.exam.questions:,} hidden questions, made after everything has stopped"),
    )  # fmt: skip
