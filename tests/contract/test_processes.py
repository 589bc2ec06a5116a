"""What every `ports.Processes` must do: the local ones under dash and bash, and the fake under its virtual clock."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from palestra.cluster.fake import Behaviour, FakeProcesses
from palestra.cluster.processes import LocalProcesses
from palestra.ports import Process, Processes, ProcessSnapshot
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import MIB, SECOND, Bytes, Micros, Moment

ENV = (("PATH", os.environ.get("PATH", "/usr/bin:/bin")),)
HOLD = "exec sleep 60"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
LIMIT = Micros(30 * SECOND)
GRACE = Micros(SECOND // 2)
GREEDY = f"import time; held = bytearray({200 * MIB}); time.sleep(60)"


class Bench(Protocol):
    """Starts the same thing for real or as a behaviour, and waits in real or virtual time."""

    def processes(self) -> Processes:
        """As a server would make them at its start; asked again, as after a crash of it."""
        ...

    def plan(self, key: str, does: Behaviour) -> None: ...
    def starts(self, key: str) -> int:
        """How often the command itself was run."""
        ...

    def step(self) -> None: ...


class Local:
    """Real processes."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.shell = shell

    def processes(self) -> LocalProcesses:
        return LocalProcesses(self.folder, f"test:{self.folder}:", shell=self.shell, sample_every=Micros(0))

    def plan(self, key: str, does: Behaviour) -> None:
        """Nothing: the script does it."""

    def starts(self, key: str) -> int:
        """Each script here says one line when it starts."""
        return (self.folder / key / "out").read_bytes().count(b"\n")

    def step(self) -> None:
        time.sleep(0.02)


class Fake:
    """Behaviours."""

    def __init__(self) -> None:
        self.now = Moment(1_700_000_000 * SECOND)
        self.plans: dict[str, Behaviour] = {}
        self._processes = FakeProcesses(lambda: self.now, lambda key, _: self.plans[key])

    def processes(self) -> FakeProcesses:
        return self._processes

    def plan(self, key: str, does: Behaviour) -> None:
        self.plans[key] = does

    def starts(self, key: str) -> int:
        return self._processes.starts.count(key)

    def step(self) -> None:
        self.now = Moment(self.now + SECOND // 20)


@pytest.fixture(params=["dash", "bash", "fake"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "fake":
        yield Fake()
        return
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"{request.param} is not installed")
    local = Local(tmp_path / "spool", shell)
    yield local
    for snapshot in local.processes().poll():
        local.processes().stop(snapshot.key)


def start(
    bench: Bench,
    key: str,
    script: str,
    does: Behaviour,
    *,
    argv: tuple[str, ...] = (),
    limit: Micros | None = LIMIT,
    grace: Micros = GRACE,
    memory: Bytes | None = None,
) -> None:
    bench.plan(key, does)
    process = Process(
        argv=argv or ("sh", "-c", script), cwd="/", env=ENV, limit=limit, grace=grace, memory=memory
    )
    bench.processes().start(process, key)


def seen(bench: Bench, key: str) -> ProcessSnapshot | None:
    return next((snapshot for snapshot in bench.processes().poll() if snapshot.key == key), None)


def until(bench: Bench, key: str, holds: Callable[[ProcessSnapshot], bool]) -> ProcessSnapshot:
    deadline = time.monotonic() + 30
    processes = bench.processes()
    while time.monotonic() < deadline:
        for snapshot in processes.poll():
            if snapshot.key == key and holds(snapshot):
                return snapshot
        bench.step()
    raise AssertionError(f"{key}: {seen(bench, key)}")


def over(snapshot: ProcessSnapshot) -> bool:
    return snapshot.state == "exited"


def lasted(snapshot: ProcessSnapshot) -> int:
    assert snapshot.started is not None and snapshot.ended is not None
    return snapshot.ended - snapshot.started


def ready(bench: Bench, key: str) -> None:
    deadline = time.monotonic() + 30
    while not bench.processes().log(key, "out", 0, 100):
        assert time.monotonic() < deadline
        bench.step()


def test_starting_a_key_twice_runs_it_once(bench: Bench) -> None:
    for _ in range(3):
        start(bench, "a", "echo ran; exit 0", Behaviour(out=b"ran\n"))
    assert until(bench, "a", over).exit_code == 0
    start(bench, "a", "echo again; exit 1", Behaviour(exit_code=1, out=b"again\n"))
    last = seen(bench, "a")
    assert last is not None and over(last) and last.exit_code == 0
    assert bench.processes().log("a", "out", 0, 100) == b"ran\n"
    assert bench.starts("a") == 1


def test_exit_codes(bench: Bench) -> None:
    codes = (0, 1, 3, 127, 255)
    for code in codes:
        start(bench, f"a{code}", f"exit {code}", Behaviour(exit_code=code))
    for code in codes:
        snapshot = until(bench, f"a{code}", over)
        assert (snapshot.exit_code, snapshot.over_time, snapshot.over_memory) == (code, False, False)
        assert lasted(snapshot) >= 0


def test_stop_ends_at_once_what_heeds_term(bench: Bench) -> None:
    start(bench, "a", f"echo ready; {HOLD}", Behaviour(runs=None, out=b"ready\n"), grace=Micros(60 * SECOND))
    ready(bench, "a")
    bench.processes().stop("a")
    bench.processes().stop("a")
    snapshot = until(bench, "a", over)
    assert snapshot.exit_code == 143
    assert not snapshot.over_time


def test_stop_kills_after_the_grace_what_ignores_term(bench: Bench) -> None:
    start(bench, "a", STUBBORN, Behaviour(runs=None, ignores_term=True, out=b"ready\n"))
    ready(bench, "a")
    before = seen(bench, "a")
    assert before is not None and before.state == "running"
    bench.processes().stop("a")
    snapshot = until(bench, "a", over)
    assert snapshot.exit_code == 137
    assert lasted(snapshot) >= SECOND // 2


def test_a_stop_reaches_what_has_only_just_been_started(bench: Bench) -> None:
    start(bench, "a", HOLD, Behaviour(runs=None))
    bench.processes().stop("a")
    assert until(bench, "a", over).exit_code in (137, 143)


def test_time_limit(bench: Bench) -> None:
    """F40: the time limit is told apart from a stop, with the measured length beside it."""
    start(bench, "a", HOLD, Behaviour(runs=None), limit=Micros(SECOND // 2))
    snapshot = until(bench, "a", over)
    assert (snapshot.exit_code, snapshot.over_time) == (143, True)
    assert lasted(snapshot) >= SECOND // 2


def test_time_limit_of_what_ignores_term(bench: Bench) -> None:
    start(bench, "a", STUBBORN, Behaviour(runs=None, ignores_term=True), limit=Micros(SECOND // 2))
    snapshot = until(bench, "a", over)
    assert (snapshot.exit_code, snapshot.over_time) == (137, True)
    assert lasted(snapshot) >= SECOND


def test_an_end_within_the_limit_is_not_late(bench: Bench) -> None:
    start(bench, "a", "sleep 0.1", Behaviour(runs=Micros(SECOND // 10)), limit=Micros(20 * SECOND))
    assert not until(bench, "a", over).over_time


def test_without_a_limit_it_runs_until_it_ends(bench: Bench) -> None:
    start(bench, "a", "exit 5", Behaviour(exit_code=5), limit=None)
    assert until(bench, "a", over).exit_code == 5


def test_a_new_server_adopts_what_runs(bench: Bench) -> None:
    start(bench, "a", f"echo ready; {HOLD}", Behaviour(runs=None, out=b"ready\n"))
    ready(bench, "a")
    first = seen(bench, "a")
    assert first is not None and first.state == "running" and first.started is not None
    start(bench, "a", f"echo ready; {HOLD}", Behaviour(runs=None))
    again = seen(bench, "a")
    assert again is not None and again.started == first.started
    bench.processes().stop("a")
    snapshot = until(bench, "a", over)
    assert snapshot.started == first.started
    assert bench.starts("a") == 1


def test_too_much_memory_is_ended_and_told(bench: Bench) -> None:
    does = Behaviour(runs=Micros(2 * SECOND), memory=Bytes(200 * MIB))
    start(bench, "a", "", does, argv=("python3", "-c", GREEDY), memory=Bytes(80 * MIB))
    snapshot = until(bench, "a", over)
    assert snapshot.over_memory
    assert snapshot.exit_code == 137
    assert snapshot.peak_memory is not None and snapshot.peak_memory > 80 * MIB


def test_memory_within_the_limit_is_only_measured(bench: Bench) -> None:
    does = Behaviour(runs=None, memory=Bytes(200 * MIB))
    start(bench, "a", "", does, argv=("python3", "-c", GREEDY), memory=Bytes(900 * MIB))
    snapshot = until(bench, "a", lambda s: (s.peak_memory or 0) >= 200 * MIB)
    assert (snapshot.state, snapshot.over_memory) == ("running", False)
    bench.processes().stop("a")
    assert not until(bench, "a", over).over_memory


def test_logs_are_the_very_bytes(bench: Bench) -> None:
    """S23: text is byte-exact, whatever it is."""
    wild = bytes(range(256)) * 3
    script = r"import os; d = bytes(range(256)) * 3; os.write(1, d); os.write(2, d[::-1])"
    start(bench, "a", "", Behaviour(out=wild, err=wild[::-1]), argv=("python3", "-c", script))
    until(bench, "a", over)
    log = bench.processes().log
    assert log("a", "out", 0, 10_000) == wild
    assert log("a", "err", 0, 10_000) == wild[::-1]
    assert log("a", "out", 250, 10) == wild[250:260]
    assert log("a", "out", -5, 3) == wild[-5:-2]
    assert log("a", "out", -5, 100) == wild[-5:]
    assert log("a", "out", -100_000, 4) == wild[:4]
    assert log("a", "out", 100_000, 4) == b""
    assert log("nobody", "out", 0, 4) == b""


def test_stopping_what_has_ended_or_never_was_changes_nothing(bench: Bench) -> None:
    start(bench, "a", "exit 4", Behaviour(exit_code=4))
    before = until(bench, "a", over)
    bench.processes().stop("a")
    bench.processes().stop("nobody")
    assert seen(bench, "a") == before


def test_forget(bench: Bench) -> None:
    start(bench, "a", HOLD, Behaviour(runs=None))
    with pytest.raises(Broken, match="still running"):
        bench.processes().forget("a")
    bench.processes().stop("a")
    until(bench, "a", over)
    bench.processes().forget("a")
    bench.processes().forget("a")
    assert seen(bench, "a") is None
    assert bench.processes().log("a", "out", 0, 10) == b""


def test_keys_come_in_order(bench: Bench) -> None:
    for key in ("c", "a", "b"):
        start(bench, key, "exit 0", Behaviour())
        until(bench, key, over)
    assert [snapshot.key for snapshot in bench.processes().poll()] == ["a", "b", "c"]


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../a", "a\nb", ".hidden", "x" * 101])
def test_a_key_is_a_plain_name(bench: Bench, key: str) -> None:
    with pytest.raises(BadInput, match="key"):
        start(bench, key, "exit 0", Behaviour())
