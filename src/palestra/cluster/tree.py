"""Reads /proc: which processes belong to which unit, what memory they hold; and ends them. Linux only.

A process belongs to a unit when it carries the unit in its environment, is in the session of the unit's command, is a child
of its shim (outside the shim's own session), or descends from one that is: what shim.sh goes by, for the server's side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from palestra.cluster.shim import UNIT
from palestra.rules.units import Bytes

_TRIES = 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MARK = b"\0" + UNIT.encode() + b"="


class Seen(NamedTuple):
    """One living process as /proc showed it."""

    pid: int
    parent: int
    group: int
    session: int
    started: str
    """Clock ticks since boot: with the pid, this names one process for as long as the host is up."""
    resident: Bytes
    kernel: bool
    """A thread of the kernel's own: it has no memory, and no environment."""


class Command(NamedTuple):
    """Where to look for a unit's processes."""

    unit: str
    session: int | None
    """The session of its command, while that one is known to be its."""
    shim: int | None = None
    """The pid of its shim, while that one lives."""


def look(pid: int | str) -> Seen | None:
    """One process; None when it is gone or only waits to be reaped."""
    text = _read(f"/proc/{pid}/stat")
    if text is None:
        return None
    field = text[text.rindex(b")") + 2 :].split()
    if field[0] in (b"Z", b"X") and int(field[17]) < 2:
        return None
    return Seen(
        int(pid),
        int(field[1]),
        int(field[2]),
        int(field[3]),
        field[19].decode(),
        Bytes(int(field[21]) * _PAGE),
        field[20] == b"0",
    )


def everyone() -> dict[int, Seen]:
    """All living processes."""
    with os.scandir("/proc") as entries:
        found = [look(entry.name) for entry in entries if entry.name.isdigit()]
    return {seen.pid: seen for seen in found if seen is not None}


def members(commands: Iterable[Command], living: Mapping[int, Seen]) -> dict[str, set[int]]:
    """The pids of each unit's tree."""
    commands = list(commands)
    by_session = {command.session: command.unit for command in commands if command.session is not None}
    by_shim = {command.shim: command.unit for command in commands if command.shim is not None}
    trees: dict[str, set[int]] = {command.unit: set() for command in commands}
    owner: dict[int, str] = {}
    for seen in living.values():
        unit = None if seen.kernel else _unit(seen.pid)
        if unit not in trees:
            unit = by_session.get(seen.session)
        if unit is None and seen.session != seen.parent:
            unit = by_shim.get(seen.parent)
        if unit is not None:
            owner[seen.pid] = unit
    for seen in living.values():
        line = []
        at: Seen | None = seen
        while at is not None and at.pid not in owner and at.pid not in line:
            line.append(at.pid)
            at = living.get(at.parent)
        if at is not None and at.pid in owner:
            owner.update(dict.fromkeys(line, owner[at.pid]))
    for pid, unit in owner.items():
        trees[unit].add(pid)
    return trees


def memory(pids: Iterable[int]) -> Bytes:
    """Resident memory of a tree; pages that several of its processes share count once (proportional set size)."""
    return Bytes(sum(_proportional(pid) for pid in pids))


def kill(pids: Iterable[int], living: Mapping[int, Seen], spare: int) -> None:
    """KILL to these and to their process groups, which no fork outruns; never to the group `spare`."""
    pids = list(pids)
    groups = {living[pid].group for pid in pids if pid in living} - {0, 1, spare, os.getpgrp()}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _unit(pid: int) -> str | None:
    for _ in range(_TRIES):
        text = _read(f"/proc/{pid}/environ")
        if text is None or (text and (at := (b"\0" + text).find(_MARK)) < 0):
            return None
        if text:
            return text[at + len(_MARK) - 1 :].split(b"\0", 1)[0].decode("utf-8", "replace")
        # In the middle of an exec nothing can be read, and the end of the environment isn't set yet.
        stat = _read(f"/proc/{pid}/stat")
        if stat is None or stat[stat.rindex(b")") + 2 :].split()[48] != b"0":
            return None
        time.sleep(0.001)
    return None


def _proportional(pid: int) -> int:
    text = _read(f"/proc/{pid}/smaps_rollup")
    if text and (at := text.find(b"\nPss:")) >= 0:
        return int(text[at + 5 :].split(maxsplit=1)[0]) * 1024
    # No leave, or an old kernel: resident without what is shared.
    field = (_read(f"/proc/{pid}/statm") or b"").split()
    return max(0, int(field[1]) - int(field[2])) * _PAGE if len(field) > 2 else 0


def _read(path: str) -> bytes | None:
    """A whole file of /proc; None when its process is gone or not ours to see. Plain calls: this runs for every process."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(file, 1 << 17):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(file)
