"""Takes secrets out of text that is to be shown: text and what is known to be secret in, the same text without it out."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec


class Secret(msgspec.Struct, frozen=True):
    """Something that no public text may hold, and what stands in its place."""

    value: str
    shown: str = "[masked]"
    name: bool = False
    """A sealed name: found in any case, however its words are joined."""


_BETWEEN = r"(?:\x1b\[[0-9;:?]{0,20}[@-~]|[\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff])*"
"""What may stand between two characters of a token without changing what a reader sees: line breaks, escapes, invisibles."""
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk|hf|gsk|ghp|gho|ghs|ghu|glpat|github_pat|xox[abeoprs]|npm|pypi|r8|nvapi|xai|wandb)[-_][A-Za-z0-9_.-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?<=://)[^\s/:@]{1,64}:[^\s/@]{3,}(?=@)",
    re.DOTALL,
)
_NAMED = re.compile(
    r"(?i)((?:bearer|(?:api|access|secret|auth|private)[_-]?key|token|secret|passw(?:or)?d)[\"']?\s*(?:[:=]\s*)?[\"']?)"
    r"([A-Za-z0-9+/_.~=-]{20,})"
)
"""A word that announces a secret, and what follows it."""
_LEAST = 4
"""Characters of a token that may stand at the very end of a text that is still growing."""


def mask(text: str, secrets: tuple[Secret, ...]) -> str:
    """The text without any of the secrets, and without what looks like a key."""
    for pattern, shown in _patterns(secrets):
        text = pattern.sub(lambda _found, shown=shown: shown, text)  # type: ignore[misc]
    text = _KEYS.sub("[masked]", text)
    return _NAMED.sub(lambda found: found[1] + "[masked]" if _chancy(found[2]) else found[0], text)


def mask_end(text: str, secrets: tuple[Secret, ...]) -> str:
    """Cuts off what may be the first half of a secret, at the end of a text that is still being written."""
    for secret in secrets:
        for length in range(min(len(secret.value) - 1, len(text)), _LEAST - 1, -1):
            if text.endswith(secret.value[:length]):
                return text[:-length]
    return text


def _chancy(word: str) -> bool:
    """Whether a word looks drawn by lot: letters and digits mixed, no plain word or path."""
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word) and "/" not in word


@lru_cache(maxsize=8)
def _patterns(secrets: tuple[Secret, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Longest first, so that a secret inside another one doesn't leave the rest of it standing."""
    ordered = sorted((one for one in secrets if one.value.strip()), key=lambda one: -len(one.value))
    return tuple((_name(one.value) if one.name else _token(one.value), one.shown) for one in ordered)


def _token(value: str) -> re.Pattern[str]:
    return re.compile(_BETWEEN.join(map(re.escape, value)))


def _name(value: str) -> re.Pattern[str]:
    """`Grok 4` also as `grok-4` and `GROK_4`; a short name only as a word of its own."""
    words = re.findall(r"[^\W_]+", value) or [value]
    body = r"[\W_]{0,3}".join(map(re.escape, words))
    short = sum(map(len, words)) < 5
    return re.compile(rf"(?<![^\W_]){body}(?![^\W_])" if short else body, re.IGNORECASE)
