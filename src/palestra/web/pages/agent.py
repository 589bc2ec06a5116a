"""One agent's page: its budgets, its whole run on one line of time, sessions, jobs and nominations. A source in, one struct out."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.events.masking import Secret
from palestra.rules.units import Moment, show_duration, show_size
from palestra.state.arena import State
from palestra.state.catalog import JobCard, NominationCard, View
from palestra.web.pages.figures import (
    Meter,
    capital,
    meters,
    per_cent,
    plural,
    scale_of,
    span,
    t,
    unit_of,
    units,
    word,
)
from palestra.web.pages.lanes import Span, axis, lanes, place
from palestra.web.pages.masthead import Masthead, masthead
from palestra.web.pages.nodes import Waiting, queue
from palestra.web.pages.nomination import NominationRow, nomination_row
from palestra.web.pages.source import Source
from palestra.web.pages.text import line

JOBS = 30
"""Jobs that the page lists unless asked for all."""


class JobRow(msgspec.Struct, frozen=True):
    """A job, as listed."""

    job: str
    name: Markup
    asks: str
    submitted: str
    ran: str
    state: str
    """Its class: `ok`, `bad`, `oom`, `run`, `wait`, `off`."""
    end: str
    cause: str
    evidence: Markup
    charged: str
    attempts: int


class SessionRow(msgspec.Struct, frozen=True):
    """One life of the agent's process."""

    session: str
    started: str
    ended: str
    lasted: str
    end: str
    bad: bool


class Agent(msgspec.Struct, frozen=True):
    """All of the page but its steps."""

    head: Masthead
    time: str
    time_short: str
    corner: str
    name: Markup
    lab: Markup
    alias: bool
    harness: str
    kinds: tuple[str, ...]
    done: str
    before: str
    after: str
    stand: str
    api: Meter
    gpu: Meter
    api_said: str
    gpu_said: str
    meters: tuple[tuple[str, str, float, bool], ...]
    waiting: tuple[Waiting, ...]
    lanes: tuple[tuple[str, tuple[Span, ...]], ...]
    now: float | None
    axis: tuple[tuple[str, float], ...]
    jobs: tuple[JobRow, ...]
    jobs_all: int
    ends: tuple[tuple[str, str, int], ...]
    current: NominationRow | None
    nominations: tuple[NominationRow, ...]
    sessions: tuple[SessionRow, ...]
    steps: int


def agent(source: Source, corner: str, every_job: bool) -> Agent:
    """As of now; `KeyError` when there is no such corner."""
    view, head, secrets = source.view(), masthead(source), source.secrets()
    state, cards = view.state, view.catalog
    seat = state.corners[corner]
    jobs = [card for card in cards.jobs.values() if card.corner == corner]
    mine = [card for card in cards.nominations.values() if card.corner == corner]
    name = next(one for one in head.names if one.corner == corner)
    api, gpu = meters(state, cards, corner, view.at)
    scale = scale_of(state)
    rows = tuple(nomination_row(state, card, secrets) for card in reversed(mine))
    order = sorted(state.corners)
    here = order.index(corner)
    listed = jobs[::-1] if every_job else jobs[: -JOBS - 1 : -1]
    return Agent(
        head=head,
        time=scale.heading,
        time_short=scale.short,
        corner=corner,
        name=name.name,
        lab=name.lab,
        alias=name.alias,
        harness="" if name.alias else seat.harness,
        kinds=tuple(
            dict.fromkeys(
                card.inspection.kind for card in mine if card.inspection and card.state == "accepted"
            )
        ),
        done=t(state, seat.finished),
        before=order[here - 1] if here else "",
        after=order[here + 1] if here + 1 < len(order) else "",
        stand=_stand(view, corner, jobs, mine),
        api=api,
        gpu=gpu,
        api_said=_pace_said(api, ""),
        gpu_said=_pace_said(gpu, f" {scale.short}"),
        meters=_meters(view, corner, api),
        waiting=tuple(one for one in queue(source) if one.corner == corner),
        lanes=lanes(view, corner, jobs, mine),
        now=place(view, view.at) if state.clock.stage == "running" else None,
        axis=axis(view),
        jobs=tuple(job_row(view, card, secrets) for card in listed),
        jobs_all=len(jobs),
        ends=_ends(view, jobs),
        current=next((row for row in rows if row.current), None),
        nominations=rows,
        sessions=_sessions(view, corner),
        steps=cards.tallies[corner].steps if corner in cards.tallies else 0,
    )


def _stand(view: View, corner: str, jobs: list[JobCard], mine: list[NominationCard]) -> str:
    """The page's first sentence."""
    state = view.state
    seat = state.corners[corner]
    said = []
    current = next((card for card in mine if card.current), None)
    if current is not None:
        kind = {"lora": "A LoRA adapter", "full": "A full model"}.get(
            current.inspection.kind if current.inspection else "", "A model"
        )
        said.append(f"{kind} stands as its nomination since {t(state, current.requested)}.")
    elif mine:
        said.append("None of its nominations stands.")
    else:
        said.append(
            "It has nominated nothing yet." if state.clock.stage == "running" else "It nominated nothing."
        )
    failed = sum(job_state(card)[0] in ("bad", "oom") for card in jobs)
    if jobs:
        how = f"{word(failed) if failed else 'none'} of them without success"
        said.append(capital(f"{plural(len(jobs), 'job')}, {how}."))
    if seat.finished is not None:
        said.append(f"It was done at {t(state, seat.finished)}.")
    return " ".join(said)


def _pace_said(meter: Meter, unit: str) -> str:
    held = f" {meter.held_shown}{unit} more held for what is running." if meter.held_shown else ""
    if meter.pace is None:
        return f"{meter.left}{unit} left unused.{held}"
    where = "Ahead of" if meter.ahead else "Below"
    return f"{where} the even pace: {meter.used} % used, {meter.pace} % of its time gone.{held}"


def _meters(view: View, corner: str, api: Meter) -> tuple[tuple[str, str, float, bool], ...]:
    state = view.state
    unit, cap = unit_of(state), state.rules.jobs.gpus_running
    used = sum(len(one.gpus) for one in state.attempts.values() if one.corner == corner)
    calls = sum(1 for call in state.calls.values() if call.corner == corner)
    waits = sum(1 for job in state.jobs.values() if job.corner == corner and not job.attempt)
    return (
        (
            "On hold",
            f"{api.held_shown or '$0.00'} for {calls} open {'call' if calls == 1 else 'calls'}",
            api.held,
            False,
        ),
        (
            "Running",
            f"{used} of the {units(cap, unit)} it may use at once",
            per_cent(used / max(1, cap)),
            False,
        ),
        (
            "Waiting",
            f"{waits} of at most {state.rules.jobs.queued} jobs",
            per_cent(waits / max(1, state.rules.jobs.queued)),
            False,
        ),
    )


def job_row(view: View, card: JobCard, secrets: tuple[Secret, ...]) -> JobRow:
    """One job; its end and its cause are two things."""
    state = view.state
    last = card.attempts[-1] if card.attempts else None
    done = last.ended if last else None
    charge = sum(one.ended.charge for one in card.attempts if one.ended)
    kind, end = job_state(card)
    return JobRow(
        job=card.job,
        name=line(card.spec.name, secrets, 60),
        asks=f"{units(card.spec.gpus, unit_of(state))}, {show_size(card.spec.memory)}, {show_duration(card.spec.limit)}",
        submitted=t(state, card.submitted),
        ran=_ran(state, card),
        state=kind,
        end=end,
        cause=card.ended.cause.replace("_", " ")
        if card.ended and card.ended.cause not in ("none", card.ended.end)
        else "",
        evidence=line(done.evidence, secrets, 200) if done and kind not in ("ok", "run") else Markup(),
        charged=scale_of(state).time(charge) if charge else "",
        attempts=len(card.attempts),
    )


def job_state(card: JobCard) -> tuple[str, str]:
    """A job's class and word."""
    if card.ended is not None:
        kinds = {"completed": "ok", "cancelled": "off", "out_of_memory": "oom", "preempted": "off"}
        return kinds.get(card.ended.end, "bad"), card.ended.end.replace("_", " ")
    last = card.attempts[-1] if card.attempts else None
    if last is None or last.ended is not None:
        return "wait", "waiting" if last is None else "queued again"
    return "run", "stopping" if last.stopping else "running"


def _ran(state: State, card: JobCard) -> str:
    total = 0
    for one in card.attempts:
        if one.ended and one.ended.started is not None and one.ended.ended is not None:
            total += one.ended.ended - one.ended.started
    if total:
        return span(total)
    return f"since {t(state, card.attempts[-1].placed)}" if card.attempts and card.ended is None else ""


def _ends(view: View, jobs: list[JobCard]) -> tuple[tuple[str, str, int], ...]:
    """(class, word, how many), for the strip above the list."""
    found: dict[tuple[str, str], int] = {}
    for card in jobs:
        found[job_state(card)] = found.get(job_state(card), 0) + 1
    order = ["ok", "off", "oom", "bad", "run", "wait"]
    return tuple(
        (kind, word, n) for (kind, word), n in sorted(found.items(), key=lambda one: order.index(one[0][0]))
    )


def _sessions(view: View, corner: str) -> tuple[SessionRow, ...]:
    state = view.state
    rows = []
    for card in view.catalog.sessions.values():
        if card.corner != corner:
            continue
        until = card.ended if card.ended is not None else Moment(view.at)
        end = "running" if card.end is None else card.end.cause
        if card.end is not None and card.end.exit_code is not None:
            end += f", exit code {card.end.exit_code}"
        bad = card.end is not None and (card.end.quick or card.end.cause == "lost")
        rows.append(
            SessionRow(
                card.session,
                t(state, card.started),
                t(state, card.ended),
                span(until - card.started),
                end,
                bad,
            )
        )
    return tuple(rows[::-1])
