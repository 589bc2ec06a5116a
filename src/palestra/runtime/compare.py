"""What should be so against what is: state and world in, observations to tell and acts to do out. Decides, does nothing."""

from __future__ import annotations

import msgspec

from palestra.ports import AttemptSnapshot, CopyResult, ProcessSnapshot
from palestra.referee.observations import (
    AttemptExited,
    AttemptLost,
    CopyBroke,
    CopyDone,
    Observation,
    SessionExited,
    SessionLost,
    Trouble,
    TroubleOver,
)  # fmt: skip
from palestra.rules.units import Bytes
from palestra.state.arena import Attempt, State
from palestra.state.exams import EXAM
from palestra.state.nominations import VALIDATE

SCOREBOARD = "scoreboard"
"""The document that is frozen when the results are in."""


class Act(msgspec.Struct, frozen=True):
    """Something to do outside. Doing it twice does it once."""


class World(msgspec.Struct, frozen=True):
    """One look at everything outside. `attempts` is None while the engine can't be reached: then nothing is concluded."""

    attempts: dict[str, AttemptSnapshot] | None
    sessions: dict[str, ProcessSnapshot]
    copies: dict[str, CopyResult]
    unreachable: str = ""
    doing: frozenset[Act] = frozenset()
    """Acts that were under way when the look began: what they are about may be seen half done."""


class StartAttempt(Act, frozen=True):
    """Run a placed attempt."""

    attempt: str


class StopAttempt(Act, frozen=True):
    """Stop an attempt, with grace."""

    attempt: str


class StartSession(Act, frozen=True):
    """Start an agent."""

    session: str


class StopSession(Act, frozen=True):
    """Stop an agent, with grace."""

    session: str


class StartCopy(Act, frozen=True):
    """Copy a nominated folder into the vault, or go on with it."""

    nomination: str


class ForgetCopy(Act, frozen=True):
    """Drop what is kept of a copy that was told."""

    copy: str


class JudgeProbes(Act, frozen=True):
    """Read what a validation left, and tell it."""

    nomination: str
    job: str


class MakeQuestions(Act, frozen=True):
    """Have the exam program make the hidden questions, and tell it."""


class GradeExam(Act, frozen=True):
    """Have the exam program score a model's answers, and tell it."""

    exam: str
    job: str


class FreezeScoreboard(Act, frozen=True):
    """Write the official scoreboard from the record."""


def compare(
    state: State, world: World, doing: frozenset[Act] = frozenset()
) -> tuple[list[Observation], list[Act]]:
    """Facts first: what they change is compared anew in the next look. `doing` is left alone until it is done."""
    told: list[Observation] = []
    acts: list[Act] = []
    if state.opened is None:
        return told, acts
    doing |= world.doing
    if world.attempts is not None:
        for attempt in state.attempts.values():
            if StartAttempt(attempt.attempt) not in doing:
                _attempt(attempt, world.attempts.get(attempt.attempt), told, acts)
    _engine(state, world, told)
    _sessions(state, world, doing, told, acts)
    _copies(state, world, told, acts)
    _judging(state, acts)
    return told, acts


def _attempt(
    attempt: Attempt, seen: AttemptSnapshot | None, told: list[Observation], acts: list[Act]
) -> None:
    name = attempt.attempt
    if seen is None:
        if attempt.stopping == "none":
            acts.append(StartAttempt(name))
        else:  # stopped before it ever ran: it has no times, so nothing is owed
            told.append(AttemptExited(name, None, None, None))
    elif seen.state == "lost":
        told.append(AttemptLost(name))
    elif seen.state == "exited":
        told.append(
            AttemptExited(
                name, seen.exit_code, seen.started, seen.ended, seen.over_time, seen.over_memory, seen.peak_memory,
                seen.missing_outputs, seen.log_tail,
            )
        )  # fmt: skip
    elif attempt.stopping != "none":
        acts.append(StopAttempt(name))


def _engine(state: State, world: World, told: list[Observation]) -> None:
    """An engine that can't be asked is an alarm, never a lost job."""
    alarm = "unreachable:executor"
    if world.attempts is None:
        told.append(Trouble(alarm, f"the executor can't be reached: {world.unreachable}"))
    elif alarm in state.alarms:
        told.append(TroubleOver(alarm))


def _sessions(
    state: State, world: World, doing: frozenset[Act], told: list[Observation], acts: list[Act]
) -> None:
    for session in state.sessions.values():
        if StartSession(session.session) in doing:
            continue
        seen = world.sessions.get(session.session)
        if seen is None:
            if not session.stopping:
                acts.append(StartSession(session.session))
            else:
                told.append(SessionExited(session.session, None, 0))
        elif seen.state == "lost":
            told.append(SessionLost(session.session))
        elif seen.state == "exited":
            lived = (seen.ended or 0) - (seen.started or 0)
            told.append(SessionExited(session.session, seen.exit_code, lived))
        elif session.stopping:
            acts.append(StopSession(session.session))


def _copies(state: State, world: World, told: list[Observation], acts: list[Act]) -> None:
    copying = {one.copy: one for one in state.nominations.values() if one.state == "copying"}
    for copy, one in copying.items():
        result = world.copies.get(copy)
        if result is None:
            acts.append(StartCopy(one.nomination))
        elif result.code or result.inspection is None:
            told.append(CopyBroke(copy, result.code or "not_loadable", result.evidence))
        else:
            told.append(CopyDone(copy, result.artifact, Bytes(result.size), result.inspection, result.again))
    acts.extend(ForgetCopy(copy) for copy in world.copies if copy not in copying)


def _judging(state: State, acts: list[Act]) -> None:
    acts += [
        JudgeProbes(one.nomination, one.job)
        for one in state.nominations.values()
        if one.state == "validating" and one.job not in state.jobs
    ]
    if state.clock.stage == "judging" and not state.exams:
        acts.append(MakeQuestions())
    acts += [
        GradeExam(sitting.exam, sitting.job)
        for sitting in state.exams.values()
        if sitting.job and not sitting.over and sitting.job not in state.jobs
    ]
    if state.clock.stage == "results" and SCOREBOARD not in state.reports:
        acts.append(FreezeScoreboard())


def house_target(purpose: str) -> tuple[str, str]:
    """What a house job is for: (`validate`, nomination) or (`exam`, exam)."""
    for prefix, word in ((VALIDATE, "validate"), (EXAM, "exam")):
        if purpose.startswith(prefix):
            return word, purpose.removeprefix(prefix)
    raise ValueError(f"not a house job's purpose: {purpose!r}")
