"""What all events share: a struct with a kind and a version; rows of the journal are made of them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from palestra.rules.units import Moment

LONGEST_TEXT = 2048
"""Bytes of free text an event may hold; anything longer is a blob by digest."""


class Event(msgspec.Struct, frozen=True):
    """A fact. The class name is its kind; new fields need defaults, a changed kind needs a new version and an upcaster."""

    VERSION: ClassVar[int] = 1
    SUBJECT: ClassVar[str] = ""
    """The field whose value is the row's subject."""

    @property
    def subject(self) -> str:
        """The id this fact is about, `run` where it is about the whole run."""
        return str(getattr(self, self.SUBJECT)) if self.SUBJECT else "run"


class Entry(msgspec.Struct, frozen=True):
    """A journal row as folds see it: decoded, without its bytes and digest."""

    seq: int
    at: Moment
    actor: str
    request: str | None
    event: Event


def clip(text: str) -> str:
    """Free text cut to what an event may hold, the cut shown."""
    data = text.encode()
    if len(data) <= LONGEST_TEXT:
        return text
    return data[: LONGEST_TEXT - 16].decode("utf-8", "ignore") + " [cut]"
