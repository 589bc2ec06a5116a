"""What a corner needs before its entrant can sit down: a token, a home with its data, a socket's place. Safe to repeat."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from palestra.cluster.homes import FolderHomes
from palestra.rules.competition import Data
from palestra.rules.errors import Refusal
from palestra.runtime.folder import RunFolder
from palestra.runtime.sealing import commit_to

TOKENS = "tokens.json"
SALTS = "salts.json"
NAMES = "names.json"
"""True names of entrants that joined under an alias while the run went on."""


class Seats:
    """Tokens, homes and sockets by corner. The dicts are shared with whoever starts agents, so that they are always current."""

    def __init__(self, folder: RunFolder, homes: FolderHomes, source: Path, data: Iterable[Data]) -> None:
        """`source` is the folder that the data's paths begin at."""
        self._folder = folder
        self._homes = homes
        self._data = {one.name: (source / one.path).resolve() for one in data}
        self.tokens = read_tokens(folder)
        self.sockets: dict[str, str] = {}

    def take(self, corner: str) -> None:
        """Everything is there when this returns."""
        if corner not in self.tokens:
            self.rotate(corner)
        data = self._homes.open(corner) / "data"
        data.mkdir(parents=True, exist_ok=True)
        for name, target in self._data.items():
            link = data / name
            if not link.is_symlink():
                link.symlink_to(target)
        self.sockets[corner] = str(self._folder.corner_socket(corner))

    def rotate(self, corner: str) -> str:
        """A new token; the old one is gone from memory and disk."""
        self.tokens[corner] = secrets.token_urlsafe(24)
        self._folder.write_secret(TOKENS, msgspec.json.encode(self.tokens))
        return self.tokens[corner]


def read_tokens(folder: RunFolder) -> dict[str, str]:
    """Tokens by corner."""
    return msgspec.json.decode(folder.read_secret(TOKENS), type=dict[str, str])


def seal_late_name(folder: RunFolder, alias: str, name: str, lab: str) -> str:
    """A commitment to the true name of an entrant that joins under an alias; name and salt stay in secrets."""
    salts = msgspec.json.decode(folder.read_secret(SALTS), type=dict[str, str])
    if alias in salts:
        raise Refusal("name_taken", f"the alias {alias!r} stands for somebody already", subject="alias")
    salts.setdefault(alias, secrets.token_hex(16))
    folder.write_secret(SALTS, msgspec.json.encode(salts))
    known = folder.secrets / NAMES
    names = (
        msgspec.json.decode(folder.read_secret(NAMES), type=dict[str, list[str]]) if known.exists() else {}
    )
    folder.write_secret(NAMES, msgspec.json.encode(names | {alias: [name, lab]}))
    return commit_to(salts[alias], name, lab)
