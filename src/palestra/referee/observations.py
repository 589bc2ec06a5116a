"""Facts that the world reports. They can't be refused; reporting one twice changes nothing."""

from __future__ import annotations

import msgspec

from palestra.events.nominations import Inspection
from palestra.rules.prices import Usage
from palestra.rules.units import Bytes, Digest, Moment


class Observation(msgspec.Struct, frozen=True):
    """Something that is so, whoever asks."""


class Tick(Observation, frozen=True):
    """Time went by."""


class ServerUp(Observation, frozen=True):
    """A server process took over; calls still open belong to a dead one."""

    pid: int
    release: str


class ServerDown(Observation, frozen=True):
    """A server process leaves in good order. `how`: `stop` (agents and jobs are to go first), then `gone`, or `gone` alone."""

    pid: int
    how: str


class TailSetAside(Observation, frozen=True):
    """The journal's store found and set aside bytes that were never acknowledged."""

    size: int
    kept_as: str


class CallAnswered(Observation, frozen=True):
    """The upstream answered; `usage` is None where a 2xx answer carried none (the hold is charged)."""

    call: str
    usage: Usage | None
    status: int
    finish: str
    hung_up: bool = False
    asked_body: Digest | None = None
    answered_body: Digest | None = None
    first_step: int = 0
    steps: int = 0


class CallUnused(Observation, frozen=True):
    """The upstream refused or was never reached: nothing is owed."""

    call: str
    why: str
    status: int


class AttemptExited(Observation, frozen=True):
    """An attempt's processes are all gone. Times are the shim's own."""

    attempt: str
    exit_code: int | None
    started: Moment | None
    ended: Moment | None
    over_time: bool = False
    over_memory: bool = False
    peak_memory: Bytes | None = None
    missing_outputs: tuple[str, ...] = ()
    """Declared outputs that don't exist or are as old as before."""
    log_tail: str = ""
    """The last lines of the log, for classifying the cause."""


class AttemptLost(Observation, frozen=True):
    """The engine doesn't know the attempt, and no status was left (never said while it is unreachable)."""

    attempt: str


class SessionExited(Observation, frozen=True):
    """An agent's processes are all gone."""

    session: str
    exit_code: int | None
    lived: int
    """Microseconds from start to end."""


class SessionLost(Observation, frozen=True):
    """An agent's process is gone without a status."""

    session: str


class CopyDone(Observation, frozen=True):
    """The copy is in the vault, verified and inspected."""

    copy: str
    artifact: Digest
    size: Bytes
    inspection: Inspection
    again: bool = False


class CopyBroke(Observation, frozen=True):
    """The copy or its inspection failed for good. Codes: `source_changed`, `not_loadable`, `base_mismatch`, ..."""

    copy: str
    code: str
    evidence: str


class Probed(Observation, frozen=True):
    """A nominated model was served and asked the probes."""

    nomination: str
    served: bool
    error: str = ""
    probes: int = 0
    stopped: int = 0
    empty: int = 0
    looping: int = 0
    differing: int | None = None


class QuestionsMade(Observation, frozen=True):
    """The hidden questions exist: agents and jobs have stopped."""

    seed: str
    questions: Digest
    n: int


class ExamGraded(Observation, frozen=True):
    """The exam program scored a model's answers."""

    exam: str
    correct: int
    n: int
    answers: Digest


class ExamBroke(Observation, frozen=True):
    """A model could not be examined."""

    exam: str
    code: str
    evidence: str


class RefusalsRepeated(Observation, frozen=True):
    """The same no, given again since it was last counted."""

    corner: str
    code: str
    about: str
    count: int


class Trouble(Observation, frozen=True):
    """Something an organiser must look at; `alarm` is `code:subject`."""

    alarm: str
    text: str


class TroubleOver(Observation, frozen=True):
    """That trouble is gone."""

    alarm: str


class DocumentFrozen(Observation, frozen=True):
    """A report or scoreboard was made from the record up to a row."""

    name: str
    digest: Digest
    upto: int
