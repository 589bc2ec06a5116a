"""Runs attempts on this host: a placed attempt in, a process through the shim out, and its end read back off the files.

What must be known at the end is written down before the start: the state of the declared outputs. Nothing is scheduled
here; the referee placed the attempt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from palestra.cluster.outputs import Newest, newest
from palestra.cluster.shim import check_key
from palestra.ports import (
    AttemptSnapshot,
    AttemptSpec,
    Capabilities,
    Homes,
    NodeSnapshot,
    Process,
    Processes,
    ProcessSnapshot,
    Unreachable,
)
from palestra.referee.causes import telling_line
from palestra.rules.competition import Node
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import SECOND, Micros

GRACE = Micros(5 * SECOND)
NICENESS = 10
"""Attempts give way to the server, which shares the host."""
TAIL = 4096
SEARCHED = 64 * 1024
"""Bytes at the end of the log in which a line that names the cause is looked for."""
CACHES = {
    "TMPDIR": "tmp",
    "HF_HOME": "hf",
    "XDG_CACHE_HOME": "cache",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
}
"""Where each attempt's caches go inside its own scratch, so that no two attempts write one file."""


class _Note(msgspec.Struct, frozen=True):
    spec: AttemptSpec
    before: tuple[Newest | None, ...]


class _End(msgspec.Struct, frozen=True):
    missing: tuple[str, ...]


class LocalExecutor:
    """`ports.Executor` for nodes that are all this host.

    Kills the process tree: descendants, found as children of the shim, by session and by environment. Only one that outlives a
    killed shim, with its environment cleared and its session left, gets away. Memory is watched about once a second, devices
    are advised through CUDA_VISIBLE_DEVICES, and nothing is isolated.
    """

    def __init__(
        self,
        processes: Processes,
        nodes: Sequence[Node],
        homes: Homes,
        *,
        notes: Path,
        scratch: Path,
        grace: Micros = GRACE,
    ) -> None:
        self._processes = processes
        self._nodes = tuple(nodes)
        self._homes = homes
        self._notes = notes.absolute()
        self._scratch = scratch.absolute()
        self._grace = grace
        self._known: dict[str, _Note] = {}
        self._over: dict[str, AttemptSnapshot] = {}
        self._notes.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._scratch.glob(".gone-*"):
            _remove(left)

    def submit(self, spec: AttemptSpec, key: str) -> str:
        """Note the outputs' state, make the scratch, start the process; the engine's id is the key."""
        check_key(key)
        if key != spec.attempt:
            raise BadInput("key", key, f"the attempt's id, {spec.attempt}")
        if spec.node not in {node.name for node in self._nodes}:
            raise Broken(f"attempt {key}: there is no node {spec.node!r} here", retry=False)
        try:
            cwd = self._homes.open(spec.corner) / spec.cwd
            if self._note(key) is None:
                self._write(
                    f"{key}.json", _Note(spec, tuple(newest(cwd / output) for output in spec.outputs))
                )
            if self._ended(key) is None:
                self._processes.start(self._process(spec, cwd), key)
        except OSError as error:
            raise Broken(f"attempt {key}: can't be started: {error}", retry=True) from error
        return key

    def cancel(self, attempt: str) -> None:
        """TERM, then KILL after the grace."""
        self._processes.stop(attempt)

    def preempt(self, attempt: str) -> None:
        """The same: an attempt that saves on TERM has the grace to do so."""
        self._processes.stop(attempt)

    def poll(self) -> list[AttemptSnapshot] | Unreachable:
        """All attempts ever submitted whose process isn't forgotten; unreachable while our own disk fails us."""
        try:
            return self._poll()
        except OSError as error:
            return Unreachable(str(error))

    def _poll(self) -> list[AttemptSnapshot]:
        snapshots = []
        for process in self._processes.poll():
            if process.key in self._over:
                snapshots.append(self._over[process.key])
            elif (note := self._note(process.key)) is not None:
                snapshots.append(self._snapshot(process, note))
        return snapshots

    def log(self, attempt: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes:
        """Bytes as the attempt wrote them; a negative offset counts from the end."""
        return self._processes.log(attempt, stream, offset, limit)

    def nodes(self) -> list[NodeSnapshot]:
        """All up: they are this host."""
        return [NodeSnapshot(node.name, up=True) for node in self._nodes]

    def capabilities(self) -> Capabilities:
        """What holds on this host without cgroups."""
        return Capabilities(
            name="local", kill="process-tree", memory="watched", devices="advised", isolation="none"
        )

    def _process(self, spec: AttemptSpec, cwd: Path) -> Process:
        scratch = self._scratch / spec.attempt
        scratch.mkdir(mode=0o700, exist_ok=True)
        ours = {
            "PALESTRA_ATTEMPT": spec.attempt,
            "PALESTRA_ATTEMPT_NUMBER": _number(spec.attempt),
            "PALESTRA_SCRATCH": str(scratch),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, spec.gpus)),
        }
        for name, folder in CACHES.items():
            (scratch / folder).mkdir(exist_ok=True)
            ours[name] = str(scratch / folder)
        return Process(
            argv=("nice", "-n", str(NICENESS), "--", *spec.argv),
            cwd=str(cwd),
            env=tuple({**dict(spec.env), **ours}.items()),
            limit=spec.limit,
            grace=self._grace,
            memory=spec.memory,
        )

    def _snapshot(self, process: ProcessSnapshot, note: _Note) -> AttemptSnapshot:
        over = process.state != "running"
        snapshot = AttemptSnapshot(
            attempt=process.key,
            state="waiting" if process.state == "running" and process.started is None else process.state,
            exit_code=process.exit_code,
            started=process.started,
            ended=process.ended,
            over_time=process.over_time,
            over_memory=process.over_memory,
            peak_memory=process.peak_memory,
            missing_outputs=self._settle(note) if over else (),
            log_tail=self._tail(process.key) if over else "",
        )
        if over:
            self._over[process.key] = snapshot
        return snapshot

    def _settle(self, note: _Note) -> tuple[str, ...]:
        """Judge the outputs once, while they are as the attempt left them, then drop its scratch."""
        attempt = note.spec.attempt
        end = self._ended(attempt)
        if end is None:
            cwd = self._homes.open(note.spec.corner) / note.spec.cwd
            states = [
                (output, before, newest(cwd / output))
                for output, before in zip(note.spec.outputs, note.before, strict=True)
            ]
            end = _End(tuple(output for output, before, now in states if now is None or now == before))
            self._write(f"{attempt}.end.json", end)
        scratch = self._scratch / attempt
        if scratch.exists():
            gone = self._scratch / f".gone-{attempt}"
            scratch.rename(gone)  # gone at once; how long the removal takes is nobody's concern
            _remove(gone)
        return end.missing

    def _tail(self, attempt: str) -> str:
        """The end of both streams, errors last; above it, a line that names the cause where it lies further up."""
        err = self._processes.log(attempt, "err", -SEARCHED, SEARCHED)
        out = self._processes.log(attempt, "out", -SEARCHED, SEARCHED)
        room = max(TAIL - len(err), TAIL // 4)
        tail = (out[-room:] + err[-(TAIL - len(out[-room:])) :]).decode("utf-8", "replace")
        said = telling_line((out + b"\n" + err).decode("utf-8", "replace"))
        if said is None or said[1] in tail:
            return tail
        return f"{said[1][:500]}\n[...]\n{tail}"

    def _note(self, attempt: str) -> _Note | None:
        if attempt not in self._known:
            try:
                self._known[attempt] = msgspec.json.decode(
                    (self._notes / f"{attempt}.json").read_bytes(), type=_Note
                )
            except FileNotFoundError:
                return None
        return self._known[attempt]

    def _ended(self, attempt: str) -> _End | None:
        try:
            return msgspec.json.decode((self._notes / f"{attempt}.end.json").read_bytes(), type=_End)
        except FileNotFoundError:
            return None

    def _write(self, name: str, note: _Note | _End) -> None:
        new = self._notes / f".{name}"
        with new.open("wb") as file:
            new.chmod(0o600)  # the environment in it may hold secrets
            file.write(msgspec.json.encode(note))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._notes / name)


def _number(attempt: str) -> str:
    tail = attempt.rpartition(".")[2]
    return tail if tail.isdigit() else "1"


def _remove(folder: Path) -> None:
    """In a process of its own, which init reaps: a scratch may hold very many files."""
    tool = shutil.which("sh") or "/bin/sh"
    script = 'chmod -R u+rwx -- "$1" 2>/dev/null; rm -rf -- "$1"'
    subprocess.run(
        [tool, "-c", f"( {script} ) </dev/null >/dev/null 2>&1 &", tool, str(folder)],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
