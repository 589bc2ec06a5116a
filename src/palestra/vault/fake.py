"""A vault without a disk, for simulations: copies take virtual time, end as they were told to, and outlive a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from palestra.events.nominations import Inspection
from palestra.ports import CopyResult
from palestra.rules.manifest import Manifest, artifact_digest
from palestra.rules.units import SECOND, Bytes, Digest, Moment

TRAINED = Inspection(kind="lora", tensors=14, identical=0, relative_delta=0.005)


class _Running(msgspec.Struct, frozen=True):
    artifact: Digest
    size: Bytes
    source: Path
    begun: Moment
    due: Moment


class FakeVault:
    """`palestra.ports.Vault` in memory. Keep the object when a simulated server dies: the copies' children would live on.

    `now` is the virtual clock; a copy lasts `size / rate` seconds, or until `end` is called where `rate` is None.
    `inspections` and `refusals` (code, evidence) say how an artifact's copy ends; by default it is kept as trained.
    """

    def __init__(self, now: Callable[[], Moment], *, rate: int | None = 100_000_000) -> None:
        self.now = now
        self.rate = rate
        self.inspections: dict[Digest, Inspection] = {}
        self.refusals: dict[Digest, tuple[str, str]] = {}
        self.started: list[str] = []
        """Copy ids in the order begun."""
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, CopyResult] = {}
        self._kept: dict[Digest, Inspection] = {}

    def copy(self, manifest: Manifest, source: Path, copy_id: str) -> None:
        if copy_id in self._running or copy_id in self._ended:
            return
        self.started.append(copy_id)
        artifact, size, now = artifact_digest(manifest), Bytes(manifest.size), self.now()
        if artifact in self._kept:
            self._ended[copy_id] = CopyResult(
                copy=copy_id, artifact=artifact, size=size, inspection=self._kept[artifact], again=True
            )
            return
        due = Moment(now + size * SECOND // self.rate) if self.rate else Moment(1 << 62)
        self._running[copy_id] = _Running(artifact, size, source, now, due)

    def end(self, copy_id: str, code: str = "", evidence: str = "") -> None:
        """This copy ends now: kept, or with a code."""
        running = self._running.pop(copy_id)
        code, evidence = (code, evidence) if code else self.refusals.get(running.artifact, ("", ""))
        if code:
            self._ended[copy_id] = CopyResult(copy=copy_id, code=code, evidence=evidence)
            return
        again = running.artifact in self._kept
        found = self._kept.setdefault(running.artifact, self.inspections.get(running.artifact, TRAINED))
        self._ended[copy_id] = CopyResult(
            copy=copy_id, artifact=running.artifact, size=running.size, inspection=found, again=again
        )

    def results(self) -> list[CopyResult]:
        now = self.now()
        for copy_id in [copy_id for copy_id, running in self._running.items() if running.due <= now]:
            self.end(copy_id)
        return list(self._ended.values())

    def next_due(self) -> Moment | None:
        """When the next copy ends by itself: what a simulation's clock may skip to."""
        return min((running.due for running in self._running.values() if self.rate), default=None)

    def progress(self, copy_id: str) -> Bytes:
        if copy_id in self._ended:
            return self._ended[copy_id].size
        running = self._running.get(copy_id)
        if running is None or not self.rate:
            return Bytes(0)
        return Bytes(min(running.size, (self.now() - running.begun) * self.rate // SECOND))

    def path(self, digest: Digest) -> Path:
        if digest not in self._kept:
            raise KeyError(digest)
        return Path("/vault") / digest.removeprefix("sha256:")

    def forget(self, copy_id: str) -> None:
        self._running.pop(copy_id, None)
        self._ended.pop(copy_id, None)

    def drop(self, digest: Digest) -> None:
        self._kept.pop(digest, None)
