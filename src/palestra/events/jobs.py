"""Events of jobs and their attempts."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from palestra.events.base import Event
from palestra.rules.units import Bytes, Digest, GpuMicros, Micros, Moment

End = Literal[
    "completed",
    "completed_without_output",
    "failed",
    "out_of_memory",
    "timed_out",
    "preempted",
    "cancelled",
    "lost",
]
Cause = Literal[
    "none", "user_error", "host_oom", "gpu_oom", "quota", "time_limit", "no_output", "cancelled", "stage_end",
    "server_stop", "infrastructure",
]  # fmt: skip


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the cluster, frozen at submission (F24)."""

    name: str
    argv: tuple[str, ...]
    script: Digest | None = None
    """The script's bytes; given to argv as `{script}`."""
    gpus: int
    memory: Bytes
    limit: Micros
    cwd: str = "."
    outputs: tuple[str, ...] = ()
    """Paths, relative to cwd, that must exist and be new for the job to count as completed."""


class JobSubmitted(Event, frozen=True):
    """A job joined the queue. House jobs have a purpose, such as `validate:A-n3` or `exam:x1`."""

    SUBJECT: ClassVar[str] = "job"
    job: str
    corner: str
    spec: JobSpec
    purpose: str = ""
    session: str = ""
    asked: str = ""


class WaitChanged(Event, frozen=True):
    """What a queued job waits for changed: the binding resource, and who holds it."""

    SUBJECT: ClassVar[str] = "job"
    job: str
    corner: str
    resource: str
    blockers: tuple[str, ...]


class AttemptStarted(Event, frozen=True):
    """A job was given its place; the reconciler starts it. GPU-time for the whole limit is held."""

    SUBJECT: ClassVar[str] = "attempt"
    attempt: str
    job: str
    corner: str
    node: str
    gpus: tuple[int, ...]
    memory: Bytes
    limit: Micros
    hold: GpuMicros


class StopAsked(Event, frozen=True):
    """An attempt is to be stopped; its end is still to come."""

    SUBJECT: ClassVar[str] = "attempt"
    attempt: str
    job: str
    corner: str
    why: Cause
    by: str
    asked: str = ""


class AttemptEnded(Event, frozen=True):
    """An attempt is over: state and cause apart, evidence quoted, GPU-time settled from measured times."""

    SUBJECT: ClassVar[str] = "attempt"
    attempt: str
    job: str
    corner: str
    end: End
    cause: Cause
    evidence: str
    exit_code: int | None
    started: Moment | None
    ended: Moment | None
    charge: GpuMicros
    peak_memory: Bytes | None = None


class JobEnded(Event, frozen=True):
    """A job left the queue or the cluster for good."""

    SUBJECT: ClassVar[str] = "job"
    job: str
    corner: str
    end: End
    cause: Cause
    attempts: int
    asked: str = ""
