"""The top thing going on, in one sentence and a second one below it: a view in, words out."""

from __future__ import annotations

import msgspec

from palestra.referee.schedule import explain, waiting
from palestra.report.scoreboard import Line, scoreboard
from palestra.rules.units import MINUTE, SECOND, Micros, show_share
from palestra.state.arena import Job, State
from palestra.state.catalog import NominationCard, View
from palestra.state.queue import HOUSE, room
from palestra.web.pages.figures import capital, plural, span, t, unit_of

_RESOURCES = {
    "gpus": "{unit}s",
    "memory": "memory",
    "running_cap": "its own running cap",
    "gpu_time": "its own {unit}-time",
}


class Headline(msgspec.Struct, frozen=True):
    """Plain text: names in it are escaped where it is shown."""

    head: str
    stand: str


def headline(view: View) -> Headline:
    """What a spectator should know first."""
    state = view.state
    match state.clock.stage:
        case "announced":
            return _announced(view)
        case "results":
            return _results(view)
        case "judging":
            done = sum(sitting.over for sitting in state.exams.values())
            return Headline(
                "Everything has stopped. The models are being examined.",
                f"{done} of {plural(len(state.exams), 'model')} scored so far, on the same hidden questions." if state.exams
                else "The hidden questions are being made.",
            )  # fmt: skip
        case "closing":
            open_ones = sum(one.state != "accepted" for one in state.nominations.values())
            what = capital(f"{plural(open_ones, 'nomination')} {'is' if open_ones == 1 else 'are'}")
            return Headline(
                f"Time is up. {what} still copied and checked." if open_ones else "Time is up.",
                "What was nominated in time counts once it is kept and validated.",
            )
    return _running(view)


def _announced(view: View) -> Headline:
    state = view.state
    left = span(state.clock.start - view.at)
    return Headline(
        capital(f"{plural(len(state.corners), 'agent')} in their corners. It starts in {left}."),
        "The same base model, the same budgets and the same clock for all.",
    )


def _results(view: View) -> Headline:
    board = scoreboard(view.state, view.catalog)
    ranked = [line for line in board.lines if line.score is not None]
    if not ranked:
        return Headline("It is over, and no model could be scored.", "")
    first = [line for line in ranked if line.rank == 1]
    best = first[0].score
    assert best is not None
    share = show_share(best.correct, best.n)
    if len(first) > 1:
        head = f"{_names(first)} share the first place with {share}."
    else:
        head = f"{first[0].name} comes first with {share}."
    parts = []
    if board.base is not None:
        parts.append(
            f"The base model they all started from has {show_share(board.base.correct, board.base.n)}."
        )
    close = [
        one for one in ranked if one not in first and one.score is not None and one.score.high >= best.low
    ]
    if close:
        parts.append(
            f"The interval of {_names(close)} overlaps with the winner’s: the order between them is not settled."
        )
    return Headline(head, " ".join(parts))


def _names(lines: list[Line]) -> str:
    names = [line.name for line in lines]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _running(view: View) -> Headline:
    said = [found for found in (_paused(view), _stranded(view), _longest_wait(view), _news(view)) if found]
    work = _work(view)
    if not said:
        return Headline(work, _standing(view))
    head, *rest = said
    return Headline(head, " ".join([*rest[:1], work]) if len(rest) else work)


def _paused(view: View) -> str:
    return "The competition is paused. Nothing starts until it goes on." if view.state.clock.paused else ""


def _stranded(view: View) -> str:
    """Free places that nothing in the queue can use for lack of memory beside them."""
    state = view.state
    nodes = {
        wait.best_node
        for wait in (explain(state, job.job, view.at) for job in waiting(state))
        if wait.resource == "memory"
    }
    free = sum(len(one.gpus) for name, one in room(state).items() if name in nodes)
    if not free:
        return ""
    stand = f"{plural(free, unit_of(state))} {'stands' if free == 1 else 'stand'} free"
    return f"{capital(stand)}. No waiting job fits the memory beside {'it' if free == 1 else 'them'}."


def _longest_wait(view: View) -> str:
    """Worth a headline once it is long for this competition."""
    state = view.state
    jobs = [job for job in waiting(state) if job.corner != HOUSE]
    if not jobs:
        return ""
    oldest = min(jobs, key=lambda job: job.submitted)
    waited = view.at - oldest.submitted
    if waited < max(5 * SECOND, min(30 * MINUTE, state.rules.stages.running // 40)):
        return ""
    return f"{state.corners[oldest.corner].name} has waited {span(waited)} for {_thing(view, oldest)}."


def _thing(view: View, job: Job) -> str:
    wait = explain(view.state, job.job, view.at)
    return _RESOURCES.get(wait.resource, wait.resource).format(unit=unit_of(view.state))


def _news(view: View) -> str:
    """The latest decision on a nomination, while it is fresh."""
    decided = [card for card in view.catalog.nominations.values() if card.decided is not None]
    if not decided:
        return ""
    card = max(decided, key=lambda one: one.decided or 0)
    fresh = Micros(max(20 * SECOND, view.state.rules.stages.running // 8))
    if view.at - (card.decided or 0) > fresh:
        return ""
    return _decision(view.state, card)


def _decision(state: State, card: NominationCard) -> str:
    name = state.corners[card.corner].name
    if card.state == "rejected":
        return f"{name} nominates a model that is refused: {card.code.replace('_', ' ')}."
    kind = {"lora": "a LoRA adapter", "full": "a full model"}.get(
        card.inspection.kind if card.inspection else "", "a model"
    )
    return f"{name} puts up {kind}, current since {t(state, card.requested)}."


def _work(view: View) -> str:
    """Who does what just now."""
    state = view.state
    runs = [one for one in state.attempts.values() if one.corner != HOUSE]
    at_work = len({session.corner for session in state.sessions.values()})
    busy = plural(len(runs), "job")
    if runs:
        said = f"{busy} {'runs' if len(runs) == 1 else 'run'}"
        return capital(f"{said}, {plural(at_work, 'agent')} at work.") if at_work else capital(f"{said}.")
    if at_work:
        return capital(
            f"{plural(at_work, 'agent')} {'is' if at_work == 1 else 'are'} at work, and no job runs."
        )
    return "No agent is at work."


def _standing(view: View) -> str:
    current = sum(bool(seat.current) for seat in view.state.corners.values())
    if not current:
        return "Nobody has a current nomination yet."
    return capital(f"{plural(current, 'corner')} {'has' if current == 1 else 'have'} a current nomination.")
