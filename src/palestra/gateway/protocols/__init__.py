"""The protocols that clients may speak: which route is whose. One file a protocol, one line here."""

from __future__ import annotations

import importlib
import re

from palestra.gateway.protocols.shape import WireProtocol

_ROUTES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/v1/chat/completions"), "palestra.gateway.protocols.chat:CHAT"),
)
"""Paths that are POSTed to, and the protocol spoken there. What isn't listed is denied (F08)."""


def find_protocol(path: str) -> WireProtocol | None:
    """The protocol spoken at `path`, loaded on its first use."""
    for pattern, target in _ROUTES:
        if pattern.fullmatch(path):
            return _load(target)
    return None


def identify(body: bytes) -> bytes:
    """The identity of a message on the record, whichever protocol it was spoken in."""
    return _load(_ROUTES[0][1]).identify(body)


def _load(target: str) -> WireProtocol:
    module, _, name = target.partition(":")
    protocol: WireProtocol = getattr(importlib.import_module(module), name)
    return protocol
