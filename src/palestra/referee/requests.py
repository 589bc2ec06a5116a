"""What anyone may ask of the referee. Every request says who asks (`actor`) and carries the asker's own key, or none."""

from __future__ import annotations

import msgspec

from palestra.events.jobs import JobSpec
from palestra.events.nominations import AnswerSettings
from palestra.rules.competition import Competition
from palestra.rules.units import Bytes, Digest, Moment


class Request(msgspec.Struct, frozen=True):
    """`actor` is a corner's letter, `organiser:NAME`, or `server`; `key` makes the request safe to repeat."""

    actor: str
    key: str | None


class Receipt(msgspec.Struct, frozen=True):
    """The answer to a request that was granted: ids that came of it. Same key, same receipt, also after a restart."""

    kind: str
    """The kind of the first event that the request became."""
    id: str
    """The id of what was made: `A-j17`, `A-n3`, `A-c1024`; `run` where nothing was."""
    seq: int
    repeated: bool = False


class OpenRun(Request, frozen=True):
    """Begin a run by these rules."""

    run: str
    rules: Competition
    start: Moment
    competition: Digest
    terms: Digest
    exam_program: Digest
    base: Digest
    exam_seed_commitment: str
    isolation: str
    sealed_names: tuple[tuple[str, str], ...] = ()
    """(alias, salted commitment to the true name) for each entrant under an alias."""


class Pause(Request, frozen=True):
    """Stop calls and starts."""

    reason: str


class Resume(Request, frozen=True):
    """Go on after a pause."""


class EndRun(Request, frozen=True):
    """End the running stage now, by rule."""

    reason: str


class AddEntrant(Request, frozen=True):
    """Announce an entrant that joins while the run goes on. Under an alias only the alias is named here."""

    name: str
    lab: str
    harness: str
    model: str
    starts: Moment
    command: tuple[str, ...] = ()
    sealed_name: str = ""


class RemoveEntrant(Request, frozen=True):
    """Take an entrant out: it ends, and is not judged."""

    corner: str
    reason: str


class RotateToken(Request, frozen=True):
    """A corner has a new token; its agent is started again with it."""

    corner: str


class RestartEntrant(Request, frozen=True):
    """Start a corner's agent anew, and forgive what failed before."""

    corner: str
    reason: str


class ReserveCall(Request, frozen=True):
    """May this model call be made, at its worst case? The price comes from the run's own rules."""

    model: str
    input_bound: int
    """Tokens the input can be at most."""
    asked_cap: int | None
    """The output maximum the client named."""


class SubmitJob(Request, frozen=True):
    """Queue a job."""

    spec: JobSpec
    session: str = ""


class CancelJob(Request, frozen=True):
    """Take a job out of the queue, or stop its running attempt."""

    job: str


class SealCheckpoint(Request, frozen=True):
    """Put a sealed folder on the record."""

    artifact: Digest
    path: str
    size: Bytes
    files: int
    step: int | None = None


class Nominate(Request, frozen=True):
    """Judge this sealed folder, with these answer settings."""

    artifact: Digest
    path: str
    size: Bytes
    settings: AnswerSettings
    label: str = ""
    note: str = ""
    step: int | None = None


class Finish(Request, frozen=True):
    """Done for good."""

    note: str = ""
