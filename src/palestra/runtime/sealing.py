"""True names of entrants under an alias: salted commitments out of them, and a competition's text that everyone may read."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from palestra.rules.competition import Competition
from palestra.rules.errors import BadInput
from palestra.rules.toml_lines import key_lines

_STRING = r'"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'"
_ON_A_LINE = re.compile(_STRING)
_SPOKEN = re.compile(r'"""(?:[^\\]|\\.)*?"""' + r"|\'\'\'.*?\'\'\'|" + _STRING + r"|#[^\n]*", re.DOTALL)
"""What in a TOML file is text or a comment."""


def seal_names(rules: Competition, salts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(alias, commitment) of each entrant under an alias: sha256 over its salt, its name and its lab, a line each."""
    return tuple(
        (rule.alias, commit_to(salts[rule.alias], rule.name, rule.lab))
        for rule in rules.entrants
        if rule.alias
    )


def commit_to(salt: str, name: str, lab: str) -> str:
    """The commitment to one true name, in hex."""
    return hashlib.sha256(f"{salt}\n{name}\n{lab}".encode()).hexdigest()


def public_text(text: bytes) -> bytes:
    """The text as it goes on the record: wherever a sealed name or lab stands in it, also in comments, the alias stands.

    Unchanged where nobody has an alias. `ValueError` for what isn't TOML in UTF-8.
    """
    written = text.decode()
    sealed = _sealed(tomllib.loads(written))
    if not sealed:
        return text
    lines = written.split("\n")
    places = key_lines(written)
    for one in sealed:
        number = places["entrants", one.index, one.key] - 1
        lines[number] = _ON_A_LINE.sub(one.swap, lines[number])
    public = "\n".join(lines)
    for one in sorted(sealed, key=lambda one: -len(one.value)):
        public = _SPOKEN.sub(one.unsay, public)
    for one in sealed:
        if one.is_said_in(public):
            right = "a name to be sealed must be plain text in quotes, on one line"
            raise BadInput(f"entrants[{one.index}].{one.key}", "a name to be sealed", right)
    return public.encode()


class _Sealed(msgspec.Struct, frozen=True):
    """A name or lab that must not be read, and where it is given."""

    index: int
    key: str
    value: str
    alias: str

    def swap(self, found: re.Match[str]) -> str:
        """A TOML string, or the alias as one if this is the value in whatever spelling."""
        try:
            same = tomllib.loads(f"k = {found[0]}")["k"] == self.value
        except ValueError:  # quotes in a comment
            return found[0]
        return msgspec.json.encode(self.alias).decode() if same else found[0]

    def unsay(self, found: re.Match[str]) -> str:
        """Text or a comment, with the alias for the value."""
        return re.sub(rf"(?<!\w){re.escape(self.value)}(?!\w)", lambda _: self.alias, found[0])

    def is_said_in(self, public: str) -> bool:
        """Whether it can still be read there, or the text was spoilt."""
        try:
            return bool(tomllib.loads(public)["entrants"][self.index].get(self.key, "") == self.value)
        except (ValueError, LookupError):
            return True


def _sealed(data: dict[str, Any]) -> list[_Sealed]:
    entrants = data.get("entrants")
    if not isinstance(entrants, list):
        return []
    return [
        _Sealed(index, key, value, alias)
        for index, one in enumerate(entrants)
        if isinstance(one, dict) and isinstance(alias := one.get("alias"), str) and alias
        for key in ("name", "lab")
        if isinstance(value := one.get(key), str) and value and value != alias
    ]
