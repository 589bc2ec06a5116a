"""The scoreboard: state and catalogue in, one row a corner out, ranked by the exam; unscored is never ranked."""

from __future__ import annotations

import msgspec

from palestra.report.intervals import wilson
from palestra.rules.units import Moment
from palestra.state.accounts import API, GPU
from palestra.state.arena import Sitting, State
from palestra.state.catalog import Catalog, NominationCard
from palestra.state.exams import BASE


class Score(msgspec.Struct, frozen=True):
    """Correct of n, with the Wilson 95 % interval of the share."""

    correct: int
    n: int
    low: float
    high: float


class Line(msgspec.Struct, frozen=True):
    """One corner. `rank` is None where there is no score (F36); equal scores share a rank (F39)."""

    corner: str
    name: str
    lab: str
    rank: int | None
    score: Score | None
    unscored_because: str
    api_spent: int
    api_limit: int
    gpu_spent: int
    gpu_limit: int
    jobs: int
    nominations: int
    current: str
    kind: str
    current_since: Moment | None
    """When the current nomination was requested."""
    finished: Moment | None


class Scoreboard(msgspec.Struct, frozen=True):
    """Everything on one instant. Totals come from the ledger, unrounded."""

    run: str
    title: str
    at: Moment
    seq: int
    start: Moment
    stage: str
    base: Score | None
    lines: tuple[Line, ...]
    api_spent: int
    gpu_spent: int
    gpu_kind: str
    isolation: str


def scoreboard(state: State, catalog: Catalog) -> Scoreboard:
    """As of the last event folded."""
    opened = state.opened
    assert opened is not None
    by_target = {sitting.target: sitting for sitting in state.exams.values()}
    lines = _ranked([_line(state, catalog, corner, by_target) for corner in state.corners])
    return Scoreboard(
        run=opened.run,
        title=state.rules.title,
        at=Moment(state.at),
        seq=state.seq,
        start=state.clock.start,
        stage=state.clock.stage,
        base=_score(by_target.get(BASE)),
        lines=lines,
        api_spent=sum(line.api_spent for line in lines),
        gpu_spent=sum(line.gpu_spent for line in lines),
        gpu_kind=", ".join(sorted({node.gpu_kind for node in state.rules.nodes})),
        isolation=opened.isolation,
    )


def board_bytes(state: State, catalog: Catalog) -> bytes:
    """The scoreboard as the file that is frozen: the same state always gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(scoreboard(state, catalog)), indent=2) + b"\n"


def _line(state: State, catalog: Catalog, corner: str, exams: dict[str, Sitting]) -> Line:
    seat = state.corners[corner]
    mine = [card for card in catalog.nominations.values() if card.corner == corner]
    current = catalog.nominations.get(seat.current)
    sitting = exams.get(seat.current) if seat.current else None
    api, gpu = state.accounts[corner, API], state.accounts[corner, GPU]
    return Line(
        corner=corner,
        name=seat.name,
        lab=seat.lab,
        rank=None,
        score=_score(sitting),
        unscored_because=_why_unscored(state, seat.current, sitting, removed=seat.removed),
        api_spent=api.spent,
        api_limit=api.limit,
        gpu_spent=gpu.spent,
        gpu_limit=gpu.limit,
        jobs=sum(1 for card in catalog.jobs.values() if card.corner == corner),
        nominations=len(mine),
        current=seat.current,
        kind=_kind(current),
        current_since=current.requested if current else None,
        finished=seat.finished,
    )


def _kind(card: NominationCard | None) -> str:
    return card.inspection.kind if card is not None and card.inspection is not None else ""


def _why_unscored(state: State, current: str, sitting: Sitting | None, *, removed: bool) -> str:
    if sitting is not None and sitting.correct is not None:
        return ""
    if sitting is not None and sitting.failed:
        return sitting.failed
    if removed:
        return "taken out"
    if not current and state.clock.stage in ("judging", "results"):
        return "no nomination"
    return "not yet"


def _score(sitting: Sitting | None) -> Score | None:
    if sitting is None or sitting.correct is None:
        return None
    low, high = wilson(sitting.correct, sitting.n)
    return Score(sitting.correct, sitting.n, low, high)


def _ranked(lines: list[Line]) -> tuple[Line, ...]:
    """Best score first; equal scores share the rank, the earlier nomination is listed first (F39)."""
    scored = [line for line in lines if line.score is not None]
    unscored = [line for line in lines if line.score is None]
    scored.sort(key=lambda line: (-_share(line), line.current_since or 0, line.corner))
    shares = [_share(line) for line in scored]
    ranked = [msgspec.structs.replace(line, rank=shares.index(_share(line)) + 1) for line in scored]
    return (*ranked, *unscored)


def _share(line: Line) -> float:
    assert line.score is not None
    return line.score.correct / line.score.n if line.score.n else 0.0
