"""The folder of one process, as the server reads and marks it; the shim's side of it is shim.sh.

What both write: stop. Ours alone: memory, peak, over_memory. The shim's alone: pid, watch, child, quit, out, err, status.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from palestra.cluster import tree
from palestra.rules.units import SECOND, Bytes, Micros, Moment

_TICKS = os.sysconf("SC_CLK_TCK")


class Begun(msgspec.Struct, frozen=True):
    """Who runs the command: pid and start time name one process for one boot of the host."""

    pid: int
    ticks: str
    boot: str
    at: Moment

    @property
    def since_boot(self) -> Micros:
        """When it began, on the clock that no one can set."""
        return Micros(int(self.ticks) * SECOND // _TICKS)

    def lives(self) -> bool:
        """Whether that very process is there still."""
        return self.boot == _boot() and _is(self.pid, self.ticks)


class Status(msgspec.Struct, frozen=True):
    """What the shim wrote when all was gone."""

    exit_code: int
    started: Moment
    ended: Moment
    over_time: bool


class Limits(msgspec.Struct, frozen=True):
    """What the process may use; None is no limit."""

    time: Micros | None
    grace: Micros
    memory: Bytes | None


class Spool:
    """One process's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begun(self) -> Begun | None:
        """None until a shim began."""
        match self._words("pid"):
            case [pid, ticks, boot, at]:
                return Begun(int(pid), ticks, boot, Moment(int(at)))
        return None

    def unit(self) -> str:
        """What all its processes carry, and no others."""
        return self._words("limits")[2]

    def shim(self) -> int | None:
        """The pid of who runs it, while it is there."""
        begun = self.begun()
        return begun.pid if begun is not None and begun.lives() else None

    def give_up(self) -> bool:
        """Take the shim's place, so that none can begin any more; False when one did."""
        nobody = self.folder / "began.0"
        nobody.write_text(f"0 0 {_boot()} 0\n")
        try:
            (self.folder / "pid").hardlink_to(nobody)
        except FileExistsError:
            return False
        return True

    def status(self) -> Status | None:
        """None until the whole tree is gone."""
        match self._words("status"):
            case [code, started, ended, late]:
                return Status(int(code), Moment(int(started)), Moment(int(ended)), late == "1")
        return None

    def session(self) -> int | None:
        """The session of the command, while the command itself is known to be there; later its number may be another's."""
        match self._words("child"):
            case [pid] if (seen := tree.look(pid)) is not None and seen.session == seen.pid:
                return seen.pid
        return None

    def limits(self) -> Limits:
        """As they were given."""
        time, grace = self._words("limits")[:2]
        memory = self._words("memory")
        return Limits(
            Micros(int(time) * 10_000) if int(time) else None,
            Micros(int(grace) * 10_000),
            Bytes(int(memory[0])) if memory else None,
        )

    def watcher(self) -> int | None:
        """The pid of the shim's watcher, which looks round when it gets USR1; None when it isn't there."""
        match self._words("watch"):
            case [pid, ticks] if _is(int(pid), ticks):
                return int(pid)
        return None

    def asked_to_stop(self) -> Micros | None:
        """Since when, on the clock since boot."""
        match self._words("stop"):
            case [at]:
                return Micros(int(at))
        return None

    def ask_to_stop(self, since_boot: Micros) -> None:
        """Seen by the shim at once when signalled, else at its next look; asking again changes nothing."""
        if (self.folder / "stop").exists():
            return
        try:
            self._mark("stop", f"{since_boot}\n")
        except OSError:
            (self.folder / "stop").touch()  # a full disk has often still room for a name

    def mark_late(self) -> None:
        """Tell the shim that the time limit ended its command, when we had to end it in its watcher's place."""
        self._mark("quit", "0 1\n")

    def peak(self) -> Bytes | None:
        """The most memory seen."""
        words = self._words("peak")
        return Bytes(int(words[0])) if words else None

    def mark_peak(self, peak: Bytes) -> None:
        """Remember the most memory seen."""
        self._mark("peak", f"{peak}\n")

    def over_memory(self) -> bool:
        """Whether it was ended, or is to be, for using too much."""
        return bool(self._words("over_memory"))

    def mark_over_memory(self, used: Bytes) -> None:
        """Before the kill, so that a crash between the two forgets nothing."""
        self._mark("over_memory", f"{used}\n", sync=True)

    def log(self, stream: Literal["out", "err"], offset: int, limit: int) -> bytes:
        """Bytes of a stream; a negative offset counts from the end."""
        try:
            with (self.folder / stream).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(offset if offset >= 0 else max(0, size + offset))
                return file.read(max(0, limit))
        except FileNotFoundError:
            return b""

    def _words(self, name: str) -> list[str]:
        try:
            return (self.folder / name).read_text("ascii", "replace").split()
        except FileNotFoundError:
            return []

    def _mark(self, name: str, text: str, *, sync: bool = False) -> None:
        new = self.folder / f"{name}.ours"
        with new.open("w") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        new.replace(self.folder / name)


def _is(pid: int, ticks: str) -> bool:
    seen = tree.look(pid)
    return seen is not None and seen.started == ticks


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "-"
