"""One job's page: what was asked, each attempt with its end and cause, why it waits, and the end of its log. A source in, one struct out."""

from __future__ import annotations

import shlex

import msgspec
from markupsafe import Markup

from palestra.events.masking import mask_end
from palestra.events.public import show_time
from palestra.rules.units import show_duration, show_size
from palestra.state.catalog import AttemptCard, JobCard
from palestra.state.queue import HOUSE
from palestra.web.pages.agent import job_state
from palestra.web.pages.figures import span, t, unit_of, units
from palestra.web.pages.masthead import Masthead, masthead
from palestra.web.pages.nodes import Waiting, queue
from palestra.web.pages.source import Source, Stream
from palestra.web.pages.text import Shown, line, show, show_tail

TAIL = 16_384
"""Bytes of a log's end that the page shows."""
MARGIN = 1_024
"""Bytes read beyond it, so that a secret at the cut is known whole."""
LOG_LINES = 200


class AttemptRow(msgspec.Struct, frozen=True):
    """One run of the job."""

    attempt: str
    place: str
    placed: str
    ran: str
    end: str
    cause: str
    evidence: Markup
    exit_code: str
    charged: str
    peak: str
    bad: bool


class JobPage(msgspec.Struct, frozen=True):
    """All of the page but its log and script."""

    head: Masthead
    job: str
    corner: str
    owner: Markup
    house: bool
    name: Markup
    state: str
    end: str
    asks: tuple[tuple[str, str], ...]
    argv: Markup
    outputs: tuple[Markup, ...]
    script: str
    attempts: tuple[AttemptRow, ...]
    waiting: Waiting | None


def job_page(source: Source, job: str) -> JobPage:
    """As of now; `KeyError` when there is no such job. The arena's own jobs show neither command nor log."""
    view, head, secrets = source.view(), masthead(source), source.secrets()
    state = view.state
    card = view.catalog.jobs[job]
    house = card.corner == HOUSE
    what, _, target = card.purpose.partition(":")
    title = ("Examines a model" if what == "exam" else f"Validates {target}") if house else card.spec.name
    kind, end = job_state(card)
    unit = unit_of(state)
    asks = [
        ("Asks for", units(card.spec.gpus, unit)),
        ("Memory", show_size(card.spec.memory)),
        ("Time limit", show_duration(card.spec.limit)),
        ("Submitted", t(state, card.submitted)),
    ]
    if card.ended_at is not None:
        asks.append(("Ended", t(state, card.ended_at)))
    if not house and card.spec.cwd != ".":
        asks.append(("Folder", card.spec.cwd[:100]))
    return JobPage(
        head=head,
        job=card.job,
        corner=card.corner,
        owner=Markup("The arena itself") if house else head.name(card.corner),
        house=house,
        name=line(title, secrets, 80),
        state=kind,
        end=end,
        asks=tuple(asks),
        argv=Markup() if house else line(shlex.join(card.spec.argv), secrets, 1_000),
        outputs=() if house else tuple(line(one, secrets, 100) for one in card.spec.outputs),
        script="" if house or card.spec.script is None else card.spec.script,
        attempts=tuple(_attempt(source, card, one) for one in reversed(card.attempts)),
        waiting=next((one for one in queue(source) if one.job == job), None),
    )


def _attempt(source: Source, card: JobCard, one: AttemptCard) -> AttemptRow:
    state, secrets, done = source.view().state, source.secrets(), one.ended
    unit = unit_of(state)
    on = f" {unit} {', '.join(map(str, one.gpus))}" if one.gpus else ""
    ran = (
        span(done.ended - done.started)
        if done and done.started is not None and done.ended is not None
        else ""
    )
    peak = done.peak_memory if done else source.used(one.attempt)
    house = card.corner == HOUSE
    return AttemptRow(
        attempt=one.attempt,
        place=f"{one.node}{',' if on else ''}{on}",
        placed=t(state, one.placed),
        ran=ran,
        end=done.end.replace("_", " ") if done else "stopping" if one.stopping else "running",
        cause=done.cause.replace("_", " ") if done and done.cause not in ("none", done.end) else "",
        evidence=line(done.evidence, secrets, 600) if done and not house else Markup(),
        exit_code="" if done is None or done.exit_code is None else str(done.exit_code),
        charged=show_time(done.charge, unit) if done else "",
        peak=show_size(peak) if peak else "",
        bad=done is not None and done.end not in ("completed", "cancelled", "preempted"),
    )


async def log_tail(source: Source, attempt: str, stream: Stream, growing: bool, tail: int = TAIL) -> Shown:
    """The end of one stream of an attempt's output, masked."""
    data = await source.log(attempt, stream, -(tail + MARGIN), tail + MARGIN)
    secrets = source.secrets()
    text = data.decode("utf-8", "replace").removesuffix("\n")
    if growing:
        text = mask_end(text, secrets)
    return show_tail(text, secrets, limit=tail, lines=LOG_LINES)


async def script_text(source: Source, digest: str) -> Shown:
    """The script as it was submitted."""
    from palestra.rules.units import Digest

    try:
        body = await source.body(Digest(digest))
    except KeyError:
        return Shown(Markup(), "the text was erased")
    return show(body.decode("utf-8", "replace"), source.secrets(), limit=12_000, lines=200)
