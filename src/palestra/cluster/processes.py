"""Processes by key, each in its spool folder, each run by a shim that outlives the server; state is read off the files.

Nothing here is remembered that a restarted server could not read again, so adopting what runs is the next poll.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from palestra.cluster import shim, tree
from palestra.cluster.spool import Begun, Spool
from palestra.ports import Process, ProcessSnapshot
from palestra.rules.errors import Broken
from palestra.rules.units import SECOND, Bytes, Micros

SAMPLE_EVERY = Micros(SECOND)
"""How often, at most, memory is measured; a poll in between only reads files."""
PATIENCE = Micros(2 * SECOND)
"""After this long without a pid another shim is started; the two can't both run the command."""
GIVE_UP = Micros(120 * SECOND)
"""After this long without a pid the process counts as lost, and no shim can begin any more."""
SLACK = Micros(10 * SECOND)
"""How late a shim may be with a kill before the server does it in its place."""


class LocalProcesses:
    """`ports.Processes` on this host, for one server a folder.

    `unit_prefix` says in a process's environment whose it is; what tells it from all others is drawn when its key is claimed.
    """

    def __init__(
        self, folder: Path, unit_prefix: str, *, shell: str = "/bin/sh", sample_every: Micros = SAMPLE_EVERY
    ) -> None:
        shim.check_prefix(unit_prefix)
        self._folder = folder.absolute()
        self._prefix = unit_prefix
        self._shell = shell
        self._sample_every = sample_every
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._folder.glob(".*"):  # half made, or half forgotten, when a server died
            shutil.rmtree(left, ignore_errors=True)
        self._listed = 0
        self._keys: list[str] = []
        self._over: dict[str, ProcessSnapshot] = {}
        self._launched: dict[str, tuple[Micros, Micros]] = {}
        """When the first and the last shim of a key without a pid was started."""
        self._peaks: dict[str, Bytes] = {}
        self._greedy: set[str] = set()
        """Keys ended for too much memory, for the case that it could not be written down."""
        self._sampled = Micros(0)
        self._alone: set[str] = set()
        """Lost keys of which one look found nobody; it takes two, as one can miss a process that forks meanwhile."""

    def start(self, process: Process, key: str) -> None:
        """Claim the key and start its process; a key that is claimed runs what it was claimed for."""
        shim.check_key(key)
        folder = self._folder / key
        if not folder.exists():
            try:
                self._claim(process, key)
            except OSError as error:
                raise Broken(f"can't start {key}: {error}", retry=True) from error
        elif (folder / "pid").exists():
            return
        self._launch(key)

    def _claim(self, process: Process, key: str) -> None:
        new = self._folder / f".new-{key}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        try:
            shim.prepare(new, process, f"{self._prefix}{key}:{secrets.token_hex(4)}")
            if process.memory is not None:
                (new / "memory").write_text(f"{process.memory}\n")
            new.rename(self._folder / key)  # complete, or not there
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _sync(self._folder)

    def poll(self) -> list[ProcessSnapshot]:
        """All processes not forgotten, in the order of their keys."""
        keys = self._list()
        now = _since_boot()
        snapshots = {key: self._over.get(key) or self._read(key, now) for key in keys}
        lost = [key for key in keys if key not in self._over and snapshots[key].state == "lost"]
        if lost or now - self._sampled >= self._sample_every:
            self._sampled = now
            running = [
                key
                for key in keys
                if snapshots[key].state == "running" and snapshots[key].started is not None
            ]
            snapshots.update({snapshot.key: snapshot for snapshot in self._watch(running, lost, now)})
        self._over.update(
            {key: snapshot for key, snapshot in snapshots.items() if snapshot.state != "running"}
        )
        return list(snapshots.values())

    def stop(self, key: str) -> None:
        """TERM now and KILL after the grace, by the shim; of a key that ended or isn't known, nothing."""
        shim.check_key(key)
        spool = Spool(self._folder / key)
        if key in self._over or not spool.folder.exists() or spool.status() is not None:
            return
        spool.ask_to_stop(_since_boot())
        watcher = spool.watcher()
        if watcher is not None:
            with suppress(ProcessLookupError):
                os.kill(watcher, signal.SIGUSR1)

    def log(self, key: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes:
        """Bytes as the process wrote them; a negative offset counts from the end. Empty when there are none."""
        shim.check_key(key)
        return Spool(self._folder / key).log(stream, offset, limit)

    def forget(self, key: str) -> None:
        """Drop what is kept of an ended process. The key could then be started anew: forget what the journal settled."""
        shim.check_key(key)
        folder = self._folder / key
        if not folder.exists():
            return
        if key not in self._over and self._read(key, _since_boot()).state == "running":
            raise Broken(f"{key} is still running; it can be forgotten when it has ended", retry=True)
        gone = self._folder / f".gone-{key}"
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        for kept in (self._over, self._launched, self._peaks):
            kept.pop(key, None)

    def _list(self) -> list[str]:
        changed = self._folder.stat().st_mtime_ns
        # A change within the clock's step of the last one leaves no trace, so a fresh one is read again.
        if changed != self._listed or time.time_ns() - changed < SECOND * 1000:
            with os.scandir(self._folder) as entries:
                self._keys = sorted(entry.name for entry in entries if not entry.name.startswith("."))
            self._listed = changed
        return self._keys

    def _launch(self, key: str) -> None:
        now = _since_boot()
        self._launched[key] = (self._launched.get(key, (now, now))[0], now)
        shim.launch(self._folder / key, self._shell)

    def _read(self, key: str, now: Micros) -> ProcessSnapshot:
        """What the files say; `lost` still has to be confirmed by looking for survivors."""
        spool = Spool(self._folder / key)
        begun = spool.begun()
        if begun is None:
            return self._begin(key, spool, now)
        lives = begun.lives()
        status = spool.status()  # after that look: it is written just before the shim ends
        if status is not None:
            return ProcessSnapshot(
                key=key,
                state="exited",
                exit_code=status.exit_code,
                started=status.started,
                ended=status.ended,
                over_time=status.over_time,
                over_memory=key in self._greedy or spool.over_memory(),
                peak_memory=spool.peak(),
            )
        return ProcessSnapshot(
            key=key,
            state="running" if lives else "lost",
            started=begun.at if begun.pid else None,
            over_memory=key in self._greedy or spool.over_memory(),
            peak_memory=spool.peak(),
        )

    def _begin(self, key: str, spool: Spool, now: Micros) -> ProcessSnapshot:
        """Claimed, but no shim began: perhaps the server died between the two, or the host is slow or full."""
        first, last = self._launched.get(key, (now, now - PATIENCE))
        state: Literal["running", "lost"] = "running"
        if now - first >= GIVE_UP and spool.give_up():
            state = "lost"
        elif now - last >= PATIENCE:
            with suppress(Broken):  # tried again later
                self._launch(key)
        return ProcessSnapshot(key=key, state=state)

    def _watch(self, running: list[str], lost: list[str], now: Micros) -> list[ProcessSnapshot]:
        """Measure and, where a limit is passed, end the trees of what runs; end what a lost shim left behind."""
        spools = {key: Spool(self._folder / key) for key in (*running, *lost)}
        living = tree.everyone()
        commands = [
            tree.Command(spool.unit(), spool.session(), spool.shim() if key in running else None)
            for key, spool in spools.items()
        ]
        trees = tree.members(commands, living)
        changed = []
        for key, spool in spools.items():
            pids = trees[spool.unit()]
            begun = spool.begun()
            if begun is None or not pids:
                continue
            if key in lost:
                tree.kill(pids, living, begun.pid)
                changed.append(
                    ProcessSnapshot(key=key, state="running", started=begun.at, peak_memory=spool.peak())
                )
            elif self._over_memory(key, spool, pids, living) or _overdue(spool, begun, now):
                tree.kill(pids, living, begun.pid)
        return changed

    def _over_memory(self, key: str, spool: Spool, pids: set[int], living: dict[int, tree.Seen]) -> bool:
        if spool.over_memory():
            return True
        limit = spool.limits().memory
        peak = self._peaks.setdefault(key, spool.peak() or Bytes(0))
        # Exact figures are dear for large processes; plain resident memory is never less, so look closer only above the peak.
        if sum(living[pid].resident for pid in pids) <= peak:
            return False
        used = tree.memory(pids)
        if used > peak:
            self._peaks[key] = used
            with suppress(OSError):  # a full disk keeps no peak
                spool.mark_peak(used)
        if limit is None or used <= limit:
            return False
        self._greedy.add(key)
        with suppress(OSError):  # nor this, but it ends all the same
            spool.mark_over_memory(used)
        return True


def _overdue(spool: Spool, begun: Begun, now: Micros) -> bool:
    """Whether the shim's watcher should have ended this long ago, so that it must be gone itself."""
    limits = spool.limits()
    asked = spool.asked_to_stop()
    late = limits.time is not None and now - begun.since_boot > limits.time + limits.grace + SLACK
    if late:
        spool.mark_late()
    return late or (asked is not None and now - asked > limits.grace + SLACK)


def _since_boot() -> Micros:
    return Micros(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
