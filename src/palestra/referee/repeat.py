"""Requests that were made before: the same key gets the same answer, also after a restart."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from palestra.referee.requests import Receipt, Request, SubmitJob
from palestra.rules.errors import Refusal
from palestra.state.arena import State


def fingerprint(request: Request) -> str:
    """What was asked, without the key and the session that asks: kept in the event, so that a reused key is noticed."""
    if isinstance(request, SubmitJob):
        request = replace(request, session="")
    return hashlib.sha256(
        type(request).__name__.encode() + msgspec.json.encode(replace(request, key=None))
    ).hexdigest()[:16]


def repeated(state: State, request: Request) -> Receipt | Refusal | None:
    """The answer given before to this key, a refusal when the key now asks for something else, or None."""
    if request.key is None:
        return None
    before = state.answers.get((request.actor, request.key))
    if before is None:
        return None
    if before.asked != fingerprint(request):
        return Refusal(
            "key_reused",
            f"the request key {request.key!r} was used before for something else; make a new key",
            subject="key",
        )
    if before.refusal is not None:
        return Refusal(before.refusal[0], before.refusal[1])
    return Receipt(before.kind, before.id, before.seq, repeated=True)
