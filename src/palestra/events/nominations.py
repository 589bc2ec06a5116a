"""Events of checkpoints, copies and nominations."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from palestra.events.base import Event
from palestra.rules.units import Bytes, Digest

Kind = Literal["lora", "full"]


class AnswerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a nominated model is asked. Numbers are decimal strings as given; empty means the server's default."""

    system_prompt: str = ""
    temperature: str = "0"
    top_p: str = "1"
    repetition_penalty: str = "1"
    max_tokens: int = 256
    stop: tuple[str, ...] = ()


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What the vault found in the kept files. Measured reals are finite floats."""

    kind: Kind
    tensors: int
    identical: int
    """Tensors equal to the base's, bit for bit (full), or adapter deltas that are all zero (LoRA)."""
    relative_delta: float
    """Norm of the change over the norm of the base's changed tensors."""
    notes: tuple[str, ...] = ()


class CheckpointSealed(Event, frozen=True):
    """Weights in a home were sealed by a manifest."""

    SUBJECT: ClassVar[str] = "checkpoint"
    checkpoint: str
    corner: str
    artifact: Digest
    path: str
    size: Bytes
    files: int
    step: int | None = None
    asked: str = ""


class NominationRequested(Event, frozen=True):
    """`Judge this one, with these answer settings`: the instant that ranks by time use."""

    SUBJECT: ClassVar[str] = "nomination"
    nomination: str
    corner: str
    artifact: Digest
    path: str
    size: Bytes
    settings: AnswerSettings
    label: str = ""
    note: str = ""
    step: int | None = None
    asked: str = ""


class CopyStarted(Event, frozen=True):
    """The arena began to copy an artifact into its vault."""

    SUBJECT: ClassVar[str] = "copy"
    copy: str
    nomination: str
    corner: str


class CopyKept(Event, frozen=True):
    """The artifact is in the vault, verified against the manifest and inspected."""

    SUBJECT: ClassVar[str] = "copy"
    copy: str
    nomination: str
    corner: str
    artifact: Digest
    size: Bytes
    inspection: Inspection
    again: bool = False
    """True: it was kept before, nothing was copied."""


class CopyFailed(Event, frozen=True):
    """The copy could not be made; the old nomination stands."""

    SUBJECT: ClassVar[str] = "copy"
    copy: str
    nomination: str
    corner: str
    code: str
    evidence: str


class NominationRejected(Event, frozen=True):
    """The nomination will not be judged, and why; the old one stands."""

    SUBJECT: ClassVar[str] = "nomination"
    nomination: str
    corner: str
    code: str
    message: str


class NominationAccepted(Event, frozen=True):
    """Copied and validated. Current at once, unless a later request was accepted first (S60)."""

    SUBJECT: ClassVar[str] = "nomination"
    nomination: str
    corner: str
    current: bool
    probes: int
    stopped: int
    """Probes whose answer ended by itself; shown, not a gate."""
    empty: int = 0
    looping: int = 0
    differing: int | None = None
    """Probes answered otherwise than by the base; None when there was nothing to compare with."""


class NominationWithdrawn(Event, frozen=True):
    """The entrant took its nomination back."""

    SUBJECT: ClassVar[str] = "nomination"
    nomination: str
    corner: str
    asked: str = ""
