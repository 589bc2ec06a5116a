"""What entrants' verbs may say, as structs: the shapes of request bodies, every field of which may be wrong."""

from __future__ import annotations

import msgspec

from palestra.events.nominations import AnswerSettings


class JobForm(msgspec.Struct, forbid_unknown_fields=True):
    """`arena submit`."""

    argv: list[str]
    time: object = None
    gpus: int = 1
    memory: object = None
    name: str = ""
    script: str | None = None
    cwd: str = "."
    outputs: list[str] = []


class PathForm(msgspec.Struct, forbid_unknown_fields=True):
    """`arena seal`."""

    path: str


class NominationForm(msgspec.Struct, forbid_unknown_fields=True):
    """`arena nominate`."""

    path: str
    settings: AnswerSettings = AnswerSettings()
    label: str = ""
    note: str = ""


class FinishForm(msgspec.Struct, forbid_unknown_fields=True):
    """`arena finish`."""

    note: str = ""
    confirm: bool = False
