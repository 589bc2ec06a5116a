"""Processes and an executor that run nothing: behaviours in, snapshots out, all as of the clock that is handed in.

Public, for simulations and tests. They keep their own state, so a server that 'crashes' finds them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from palestra.cluster.shim import check_key
from palestra.ports import (
    AttemptSnapshot,
    AttemptSpec,
    Capabilities,
    NodeSnapshot,
    Process,
    ProcessSnapshot,
    Unreachable,
)
from palestra.rules.competition import Node
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import SECOND, Bytes, Micros, Moment

KILLED = 137
TERMED = 143


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does when nothing stops it."""

    runs: Micros | None = Micros(SECOND)
    """How long it runs by itself; None is for ever."""
    exit_code: int = 0
    missing: tuple[str, ...] = ()
    """Declared outputs that it doesn't write."""
    memory: Bytes = Bytes(0)
    """The most it holds, reached half way through its run (at once when it runs for ever)."""
    ignores_term: bool = False
    lost_after: Micros | None = None
    """When its host forgets it."""
    out: bytes = b""
    err: bytes = b""


class _Fate(msgspec.Struct, frozen=True, kw_only=True):
    at: Moment
    exit_code: int | None
    over_time: bool = False
    over_memory: bool = False


class _Run(msgspec.Struct):
    process: Process
    does: Behaviour
    started: Moment
    stopped: Moment | None = None


class FakeProcesses:
    """`ports.Processes` under a virtual clock; `starts` lists each real start in order."""

    def __init__(self, now: Callable[[], Moment], behave: Callable[[str, Process], Behaviour]) -> None:
        self._now = now
        self._behave = behave
        self._runs: dict[str, _Run] = {}
        self.starts: list[str] = []

    def start(self, process: Process, key: str) -> None:
        """Once a key."""
        check_key(key)
        if key not in self._runs:
            self._runs[key] = _Run(process, self._behave(key, process), self._now())
            self.starts.append(key)

    def poll(self) -> list[ProcessSnapshot]:
        """All not forgotten, in the order of their keys."""
        return [self._snapshot(key, self._runs[key]) for key in sorted(self._runs)]

    def stop(self, key: str) -> None:
        """Ends at once, or after the grace where TERM is ignored."""
        run = self._runs.get(key)
        if run is not None and run.stopped is None:
            run.stopped = self._now()

    def log(self, key: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes:
        """All of it is there from the start."""
        run = self._runs.get(key)
        data = b"" if run is None else run.does.out if stream == "out" else run.does.err
        return data[offset if offset >= 0 else max(0, len(data) + offset) :][: max(0, limit)]

    def forget(self, key: str) -> None:
        """Refused while it runs."""
        run = self._runs.get(key)
        if run is not None and self._snapshot(key, run).state == "running":
            raise Broken(f"{key} is still running; it can be forgotten when it has ended", retry=True)
        self._runs.pop(key, None)

    def _snapshot(self, key: str, run: _Run) -> ProcessSnapshot:
        now = self._now()
        fate = _fate(run)
        until = now if fate is None else min(now, fate.at)
        peak = run.does.memory if until >= _full(run) and run.does.memory else None
        if fate is None or now < fate.at:
            return ProcessSnapshot(key=key, state="running", started=run.started, peak_memory=peak)
        if fate.exit_code is None:
            return ProcessSnapshot(key=key, state="lost", started=run.started, peak_memory=peak)
        return ProcessSnapshot(
            key=key,
            state="exited",
            exit_code=fate.exit_code,
            started=run.started,
            ended=fate.at,
            over_time=fate.over_time,
            over_memory=fate.over_memory,
            peak_memory=peak,
        )


class FakeExecutor:
    """`ports.Executor` under a virtual clock. Set `unreachable` to a reason and it can't be asked until it is empty again."""

    def __init__(
        self,
        now: Callable[[], Moment],
        behave: Callable[[AttemptSpec], Behaviour],
        nodes: Sequence[Node] = (),
    ) -> None:
        self._behave = behave
        self._specs: dict[str, AttemptSpec] = {}
        self._does: dict[str, Behaviour] = {}
        self._processes = FakeProcesses(now, lambda key, _: self._does[key])
        self._nodes = tuple(nodes)
        self.unreachable = ""

    @property
    def starts(self) -> list[str]:
        """Each real start, in order."""
        return self._processes.starts

    def submit(self, spec: AttemptSpec, key: str) -> str:
        """Runs at once: it was placed by the referee."""
        self._reach()
        check_key(key)
        if key != spec.attempt:
            raise BadInput("key", key, f"the attempt's id, {spec.attempt}")
        if self._nodes and spec.node not in {node.name for node in self._nodes}:
            raise Broken(f"attempt {key}: there is no node {spec.node!r} here", retry=False)
        if key not in self._specs:
            self._specs[key] = spec
            self._does[key] = self._behave(spec)
        process = Process(argv=spec.argv, cwd=spec.cwd, env=spec.env, limit=spec.limit, memory=spec.memory)
        self._processes.start(process, key)
        return key

    def cancel(self, attempt: str) -> None:
        """TERM, then KILL after the grace."""
        self._reach()
        self._processes.stop(attempt)

    def preempt(self, attempt: str) -> None:
        """The same."""
        self.cancel(attempt)

    def poll(self) -> list[AttemptSnapshot] | Unreachable:
        """All ever submitted."""
        if self.unreachable:
            return Unreachable(self.unreachable)
        return [self._snapshot(process) for process in self._processes.poll()]

    def log(self, attempt: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes:
        """Bytes of a stream; a negative offset counts from the end."""
        return self._processes.log(attempt, stream, offset, limit)

    def nodes(self) -> list[NodeSnapshot]:
        """All up."""
        return [NodeSnapshot(node.name, up=True) for node in self._nodes]

    def capabilities(self) -> Capabilities:
        """It isolates nothing, and has nothing to isolate."""
        return Capabilities(
            name="fake", kill="process-tree", memory="watched", devices="none", isolation="none"
        )

    def _reach(self) -> None:
        if self.unreachable:
            raise Broken(f"the engine can't be reached: {self.unreachable}", retry=True)

    def _snapshot(self, process: ProcessSnapshot) -> AttemptSnapshot:
        over = process.state != "running"
        does = self._does[process.key]
        whole = process.state == "exited" and process.exit_code == does.exit_code and not process.over_memory
        outputs = self._specs[process.key].outputs
        missing = tuple(output for output in outputs if not whole or output in does.missing)
        return AttemptSnapshot(
            attempt=process.key,
            state=process.state,
            exit_code=process.exit_code,
            started=process.started,
            ended=process.ended,
            over_time=process.over_time,
            over_memory=process.over_memory,
            peak_memory=process.peak_memory,
            missing_outputs=missing if over else (),
            log_tail=(does.out + does.err)[-4096:].decode("utf-8", "replace") if over else "",
        )


def _full(run: _Run) -> Moment:
    """When it holds its most memory."""
    return Moment(run.started + (run.does.runs or 0) // 2)


def _fate(run: _Run) -> _Fate | None:
    """How and when it ends, as far as that is settled now."""
    ends = [
        fate for fate in (_by_itself(run), _told(run), _outgrown(run), _forgotten(run)) if fate is not None
    ]
    return min(ends, key=lambda fate: fate.at, default=None)


def _by_itself(run: _Run) -> _Fate | None:
    if run.does.runs is None:
        return None
    at = Moment(run.started + run.does.runs)
    late = run.process.limit is not None and run.does.runs > run.process.limit
    return _Fate(at=at, exit_code=run.does.exit_code, over_time=late and _limit_first(run))


def _told(run: _Run) -> _Fate | None:
    """Ended by its time limit or a stop, whichever came first."""
    times = [time for time in (_limit(run), run.stopped) if time is not None]
    if not times:
        return None
    grace = run.process.grace if run.does.ignores_term else 0
    code = KILLED if run.does.ignores_term else TERMED
    return _Fate(at=Moment(min(times) + grace), exit_code=code, over_time=_limit_first(run))


def _outgrown(run: _Run) -> _Fate | None:
    if run.process.memory is None or run.does.memory <= run.process.memory:
        return None
    return _Fate(at=_full(run), exit_code=KILLED, over_memory=True)


def _forgotten(run: _Run) -> _Fate | None:
    if run.does.lost_after is None:
        return None
    return _Fate(at=Moment(run.started + run.does.lost_after), exit_code=None)


def _limit(run: _Run) -> Moment | None:
    return None if run.process.limit is None else Moment(run.started + run.process.limit)


def _limit_first(run: _Run) -> bool:
    limit = _limit(run)
    return limit is not None and (run.stopped is None or limit <= run.stopped)
