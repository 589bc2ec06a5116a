"""What a corner needs before its entrant can sit down: a token, a home with its data, a socket's place. Safe to repeat."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from palestra.cluster.homes import FolderHomes
from palestra.rules.competition import Data
from palestra.rules.units import Digest
from palestra.runtime.folder import RunFolder

TOKENS = "tokens.json"
SALTS = "salts.json"


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


def seal_name(folder: RunFolder, alias: str, name: str, lab: str) -> Digest:
    """A salted commitment to a true name, for the record; the salt and the name stay in secrets."""
    path = folder.secrets / SALTS
    salts = msgspec.json.decode(folder.read_secret(SALTS), type=dict[str, str]) if path.exists() else {}
    salts.setdefault(alias, secrets.token_hex(16))
    folder.write_secret(SALTS, msgspec.json.encode(salts))
    return Digest("sha256:" + hashlib.sha256(f"{salts[alias]}\n{name}\n{lab}".encode()).hexdigest())
