"""A corner's whole run on one line of time: cards in; stretches and marks in per cent of the running stage out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from palestra.state.catalog import AttemptCard, JobCard, NominationCard, View
from palestra.web.pages.figures import per_cent, running_end, span, t


class Span(msgspec.Struct, frozen=True):
    """Something on the line of time, in per cent of it."""

    kind: str
    at: float
    width: float
    said: str
    text: str = ""


def place(view: View, at: int) -> float:
    """Where an instant is on the line."""
    start, end = view.state.clock.start, running_end(view.state, view.catalog, view.at)
    return per_cent((at - start) / max(1, end - start))


def axis(view: View) -> tuple[tuple[str, float], ...]:
    """Five labels from the start to the end."""
    start, end = view.state.clock.start, running_end(view.state, view.catalog, view.at)
    return tuple((t(view.state, start + (end - start) * part // 4), 25.0 * part) for part in range(5))


def lanes(
    view: View, corner: str, jobs: list[JobCard], mine: list[NominationCard]
) -> tuple[tuple[str, tuple[Span, ...]], ...]:
    """(name, what is on it), from nominations down to sessions."""
    sessions = [one for one in view.catalog.sessions.values() if one.corner == corner]
    return (
        ("Nominations", tuple(_nominations(view, mine))),
        ("Jobs", tuple(_runs(view, jobs))),
        ("Waiting", tuple(one for one in _waits(view, jobs) if one.width > 0)),
        ("Trouble", tuple(_trouble(view, jobs))),
        ("Sessions", tuple(_stretch(view, "life", one.started, one.ended, one.session) for one in sessions)),
    )


def _stretch(view: View, kind: str, since: int, until: int | None, said: str, text: str = "") -> Span:
    """From `since` to `until`, or to now."""
    at = place(view, since)
    width = place(view, view.at if until is None else until) - at
    return Span(kind, at, round(max(0.0, width), 1), said, text)


def _nominations(view: View, mine: list[NominationCard]) -> Iterator[Span]:
    for card in mine:
        pending = card.state in ("requested", "copying", "validating")
        over = card.decided if card.decided is not None or pending else card.requested
        asked = f"{card.nomination}: asked {t(view.state, card.requested)}"
        yield _stretch(view, "copy", card.requested, over, asked)
        if card.decided is None:
            continue
        if card.state == "accepted":
            kind = f"nom {card.inspection.kind if card.inspection else ''}{' cur' if card.current else ''}"
            text = card.nomination if card.current else ""
            yield _stretch(view, kind, card.decided, card.decided, f"{card.nomination} accepted", text)
        elif card.state == "rejected":
            yield _stretch(view, "no", card.decided, card.decided, f"{card.nomination} rejected: {card.code}")


def _runs(view: View, jobs: list[JobCard]) -> Iterator[Span]:
    for job in jobs:
        for attempt in job.attempts:
            yield _stretch(
                view, "job", attempt.placed, _over(job, attempt), f"{attempt.attempt} on {attempt.node}"
            )


def _over(job: JobCard, attempt: AttemptCard) -> int | None:
    """When an attempt ended, by its own times where they are known."""
    if attempt.ended is None:
        return None
    return attempt.ended.ended if attempt.ended.ended is not None else job.ended_at


def _waits(view: View, jobs: list[JobCard]) -> Iterator[Span]:
    for job in jobs:
        since: int = job.submitted
        for attempt in job.attempts:
            said = f"{job.job} waited {span(attempt.placed - since)}"
            yield _stretch(view, "wait", since, attempt.placed, said)
            since = _over(job, attempt) or since
        if job.ended is None and (not job.attempts or job.attempts[-1].ended):
            yield _stretch(view, "wait still", since, None, f"{job.job} waits")


def _trouble(view: View, jobs: list[JobCard]) -> Iterator[Span]:
    for job in jobs:
        if (
            job.ended is not None
            and job.ended_at is not None
            and job.ended.end not in ("completed", "cancelled")
        ):
            said = f"{job.job} {job.ended.end.replace('_', ' ')}"
            yield _stretch(view, "tri", job.ended_at, job.ended_at, said)
