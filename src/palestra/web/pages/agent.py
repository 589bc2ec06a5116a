"""One agent's page: its budgets, its whole run on one line of time, sessions, jobs and nominations. A source in, one struct out."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from palestra.events.nominations import AnswerSettings
from palestra.events.public import Secret, show_time
from palestra.rules.units import Moment, show_duration, show_size
from palestra.state.arena import State
from palestra.state.catalog import JobCard, NominationCard, View
from palestra.web.pages.figures import Meter, meters, per_cent, running_end, span, t, unit_of, units
from palestra.web.pages.masthead import Masthead, masthead
from palestra.web.pages.nodes import Waiting, queue
from palestra.web.pages.source import Source
from palestra.web.pages.text import Shown, line, show

JOBS = 30
"""Jobs that the page lists unless asked for all."""


class Span(msgspec.Struct, frozen=True):
    """Something on the line of time, in per cent of it."""

    kind: str
    at: float
    width: float
    said: str
    text: str = ""


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


class NominationRow(msgspec.Struct, frozen=True):
    """A nomination, as listed; asked, copied and decided are separate times (S04)."""

    id: str
    label: Markup
    note: Markup
    kind: str
    artifact: str
    step: str
    asked: str
    copied: str
    decided: str
    took: str
    state: str
    current: bool
    code: str
    message: Markup
    checks: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    stops: tuple[Markup, ...]
    system: Shown
    flow: tuple[float, float]
    """How long copying and validating took, in per cent of the whole."""


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
    rows = tuple(nomination_row(state, card, secrets) for card in reversed(mine))
    order = sorted(state.corners)
    place = order.index(corner)
    listed = jobs[::-1] if every_job else jobs[: -JOBS - 1 : -1]
    return Agent(
        head=head,
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
        before=order[place - 1] if place else "",
        after=order[place + 1] if place + 1 < len(order) else "",
        stand=_stand(view, corner, jobs, mine),
        api=api,
        gpu=gpu,
        api_said=_pace_said(api),
        gpu_said=_pace_said(gpu),
        meters=_meters(view, corner, api),
        waiting=tuple(one for one in queue(source) if one.corner == corner),
        lanes=_lanes(view, corner, jobs, mine),
        now=_place(view, view.at) if state.clock.stage == "running" else None,
        axis=_axis(view),
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
    failed = sum(card.ended is not None and card.ended.end not in ("completed", "cancelled") for card in jobs)
    if jobs:
        said.append(f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}, {failed} of them without success.")
    if seat.finished is not None:
        said.append(f"It was done at {t(state, seat.finished)}.")
    return " ".join(said)


def _pace_said(meter: Meter) -> str:
    held = f" {meter.held_shown} more is held for what is running." if meter.held_shown else ""
    if meter.pace is None:
        return f"{meter.left} left unused.{held}"
    where = "Ahead of" if meter.ahead else "Below"
    return f"{where} the even pace: {meter.used} % used, {meter.pace} % of its time gone.{held}"


def _meters(view: View, corner: str, api: Meter) -> tuple[tuple[str, str, float, bool], ...]:
    state = view.state
    unit, cap = unit_of(state), state.rules.jobs.gpus_running
    used = sum(len(one.gpus) for one in state.attempts.values() if one.corner == corner)
    calls = sum(call.corner == corner for call in state.calls.values())
    waits = sum(job.corner == corner and not job.attempt for job in state.jobs.values())
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


# The whole run on one line


def _place(view: View, at: int) -> float:
    start, end = view.state.clock.start, running_end(view.state, view.catalog, view.at)
    return per_cent((at - start) / max(1, end - start))


def _axis(view: View) -> tuple[tuple[str, float], ...]:
    start, end = view.state.clock.start, running_end(view.state, view.catalog, view.at)
    return tuple((t(view.state, start + (end - start) * part // 4), 25.0 * part) for part in range(5))


def _lanes(
    view: View, corner: str, jobs: list[JobCard], mine: list[NominationCard]
) -> tuple[tuple[str, tuple[Span, ...]], ...]:
    state = view.state

    def stretch(kind: str, since: int, until: int | None, said: str, text: str = "") -> Span:
        at = _place(view, since)
        return Span(
            kind,
            at,
            round(max(0.0, _place(view, until if until is not None else view.at) - at), 1),
            said,
            text,
        )

    made: list[Span] = []
    for card in mine:
        over = (
            card.decided
            if card.decided is not None
            else None
            if card.state in ("requested", "copying", "validating")
            else card.requested
        )
        made.append(
            stretch("copy", card.requested, over, f"{card.nomination}: asked {t(state, card.requested)}")
        )
        kind = card.inspection.kind if card.inspection else ""
        if card.state == "accepted" and card.decided is not None:
            made.append(
                stretch(
                    f"nom {kind}{' cur' if card.current else ''}",
                    card.decided,
                    card.decided,
                    f"{card.nomination} accepted",
                    card.nomination if card.current else "",
                )
            )
        elif card.state == "rejected" and card.decided is not None:
            made.append(stretch("no", card.decided, card.decided, f"{card.nomination} rejected: {card.code}"))
    runs, waits, trouble = [], [], []
    for job in jobs:
        since = job.submitted
        for attempt in job.attempts:
            ended = (
                attempt.ended.ended
                if attempt.ended and attempt.ended.ended is not None
                else job.ended_at
                if attempt.ended
                else None
            )
            waits.append(
                stretch("wait", since, attempt.placed, f"{job.job} waited {span(attempt.placed - since)}")
            )
            runs.append(stretch("job", attempt.placed, ended, f"{attempt.attempt} on {attempt.node}"))
            since = ended or since
        if job.ended is None and (not job.attempts or job.attempts[-1].ended):
            waits.append(stretch("wait now", since, None, f"{job.job} waits"))
        if (
            job.ended is not None
            and job.ended.end not in ("completed", "cancelled")
            and job.ended_at is not None
        ):
            trouble.append(
                stretch("tri", job.ended_at, job.ended_at, f"{job.job} {job.ended.end.replace('_', ' ')}")
            )
    lives = [
        stretch("life", one.started, one.ended, one.session)
        for one in view.catalog.sessions.values()
        if one.corner == corner
    ]
    waits = [one for one in waits if one.width > 0]
    lanes = [
        ("Nominations", made),
        ("Jobs", runs),
        ("Waiting", waits),
        ("Trouble", trouble),
        ("Sessions", lives),
    ]
    return tuple((name, tuple(spans)) for name, spans in lanes)


# Lists


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
        charged=show_time(charge, unit_of(state)) if charge else "",
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
    spans = [
        (one.ended.started, one.ended.ended)
        for one in card.attempts
        if one.ended and one.ended.started is not None
    ]
    total = sum(end - start for start, end in spans if start is not None and end is not None)
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


def nomination_row(state: State, card: NominationCard, secrets: tuple[Secret, ...]) -> NominationRow:
    """One nomination with what was checked and the settings frozen with it."""
    found, passed = card.inspection, card.accepted
    checks: list[tuple[str, str]] = []
    if found is not None:
        checks.append(("Every file matches its digest", "nothing copied again" if card.again else ""))
        checks.append(
            (
                "Differs from the base",
                f"relative change {found.relative_delta:.2g}, {found.tensors:,} tensors",
            )
        )
        checks += [(note, "") for note in found.notes]
    if passed is not None:
        checks.append(("Serves, and answers", f"{passed.probes - passed.empty} of {passed.probes} probes"))
        checks.append(("Stops by itself", f"{passed.stopped} of {passed.probes} probes"))
        if passed.differing is not None:
            checks.append(
                ("Answers otherwise than the base", f"{passed.differing} of {passed.probes} probes")
            )
    whole = max(1, (card.decided or card.requested) - card.requested)
    copied = card.copied if card.copied is not None else card.requested
    return NominationRow(
        id=card.nomination,
        label=line(card.label, secrets, 80),
        note=line(card.note, secrets, 300),
        kind=found.kind if found else "",
        artifact=card.artifact.removeprefix("sha256:"),
        step=f"step {card.step:,}" if card.step is not None else "",
        asked=t(state, card.requested),
        copied=t(state, card.copied),
        decided=t(state, card.decided),
        took=span(card.decided - card.requested) if card.decided is not None else "",
        state=card.state,
        current=card.current,
        code=card.code.replace("_", " "),
        message=line(card.message, secrets, 300),
        checks=tuple(checks),
        settings=_settings(card.settings),
        stops=tuple(line(one, secrets, 40) for one in card.settings.stop),
        system=show(card.settings.system_prompt, secrets, limit=1_200, lines=20),
        flow=(
            per_cent((copied - card.requested) / whole),
            per_cent((whole - (copied - card.requested)) / whole),
        ),
    )


def _settings(given: AnswerSettings) -> tuple[tuple[str, str], ...]:
    return (
        ("temperature", given.temperature[:40]),
        ("top_p", given.top_p[:40]),
        ("repetition penalty", given.repetition_penalty[:40]),
        ("max tokens", f"{given.max_tokens:,}"),
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
