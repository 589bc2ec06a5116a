"""Squared norms of the base's tensors, computed once and kept in a file, so that a small adapter needs no pass over a large base."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from palestra.vault.compare import squared_norm
from palestra.vault.weights import Weights


class _Kept(msgspec.Struct):
    """`base` is what the norms were computed from: name, bytes and time of change of each weight file."""

    base: list[tuple[str, int, int]]
    norms: dict[str, float]


class Norms:
    """Norms by tensor name; `save` keeps what was computed for the next inspection."""

    def __init__(self, base: Weights, folder: Path, file: Path | None) -> None:
        self.base = base
        self.file = file
        stats = [(name, (folder / name).stat()) for name in base.layout.weights]
        self._mark = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        self._norms = self._load()
        self._new = False

    def _load(self) -> dict[str, float]:
        if self.file is None or not self.file.is_file():
            return {}
        try:
            kept = msgspec.json.decode(self.file.read_bytes(), type=_Kept)
        except msgspec.DecodeError:
            return {}
        return kept.norms if kept.base == self._mark else {}

    def of(self, name: str) -> float:
        """The squared norm of one of the base's tensors."""
        if name not in self._norms:
            self._norms[name] = squared_norm(self.base, name)
            self._new = True
        return self._norms[name]

    def save(self) -> None:
        if self.file is None or not self._new:
            return
        draft = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(_Kept(self._mark, self._norms)))
        draft.replace(self.file)
