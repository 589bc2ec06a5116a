"""What every `ports.Executor` must do: the local one on real processes, and the fake under its virtual clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from palestra.cluster.fake import Behaviour, FakeExecutor
from palestra.cluster.homes import FolderHomes
from palestra.cluster.local import LocalExecutor
from palestra.cluster.processes import LocalProcesses
from palestra.events.jobs import Cause, End
from palestra.ports import AttemptSnapshot, AttemptSpec, Executor, NodeSnapshot, Unreachable
from palestra.referee.causes import classify
from palestra.rules.competition import Node
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import GIB, MIB, SECOND, Bytes, Micros, Moment

NODES = (Node("one", 2, Bytes(8 * GIB)), Node("two", 4, Bytes(8 * GIB)))
PATH = os.environ.get("PATH", "/usr/bin:/bin")
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


class Bench(Protocol):
    """Submits the same thing for real or as a behaviour, and waits in real or virtual time."""

    def executor(self) -> Executor:
        """As a server would make it at its start; asked again, as after a crash of it."""
        ...

    def plan(self, attempt: str, does: Behaviour) -> None: ...
    def starts(self, attempt: str) -> int: ...
    def step(self) -> None: ...


class Local:
    """Real processes below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.homes = FolderHomes(root / "homes")
        self.scratch = root / "scratch"

    def executor(self) -> LocalExecutor:
        spool = LocalProcesses(self.root / "spool", f"test:{self.root}:", sample_every=Micros(0))
        notes = self.root / "notes"
        return LocalExecutor(
            spool, NODES, self.homes, notes=notes, scratch=self.scratch, grace=Micros(SECOND // 2)
        )

    def plan(self, attempt: str, does: Behaviour) -> None:
        """Nothing: the script does it."""

    def starts(self, attempt: str) -> int:
        """Each script here that is counted says one line when it starts."""
        return self.executor().log(attempt, "out", 0, 1000).count(b"\n")

    def step(self) -> None:
        time.sleep(0.02)


class Fake:
    """Behaviours."""

    def __init__(self) -> None:
        self.now = Moment(1_700_000_000 * SECOND)
        self.plans: dict[str, Behaviour] = {}
        self.fake = FakeExecutor(lambda: self.now, lambda spec: self.plans[spec.attempt], NODES)

    def executor(self) -> FakeExecutor:
        return self.fake

    def plan(self, attempt: str, does: Behaviour) -> None:
        self.plans[attempt] = does

    def starts(self, attempt: str) -> int:
        return self.fake.starts.count(attempt)

    def step(self) -> None:
        self.now = Moment(self.now + SECOND // 20)


@pytest.fixture(params=["local", "fake"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "fake":
        yield Fake()
        return
    local = Local(tmp_path)
    yield local
    end_all(local)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path)
    yield made
    end_all(made)


def end_all(local: Local) -> None:
    executor = local.executor()
    snapshots = executor.poll()
    assert not isinstance(snapshots, Unreachable)
    for snapshot in snapshots:
        executor.cancel(snapshot.attempt)


def spec(attempt: str, script: str, *, argv: tuple[str, ...] = (), **more: object) -> AttemptSpec:
    made = AttemptSpec(
        attempt=attempt,
        corner="A",
        argv=argv or ("sh", "-c", script),
        cwd=".",
        env=(("PATH", PATH),),
        node="one",
        gpus=(0,),
        memory=Bytes(4 * GIB),
        limit=Micros(30 * SECOND),
    )
    return msgspec.structs.replace(made, **more)


def submit(bench: Bench, made: AttemptSpec, does: Behaviour) -> None:
    bench.plan(made.attempt, does)
    assert bench.executor().submit(made, made.attempt) == made.attempt


def seen(executor: Executor, attempt: str) -> AttemptSnapshot | None:
    snapshots = executor.poll()
    assert not isinstance(snapshots, Unreachable)
    return next((snapshot for snapshot in snapshots if snapshot.attempt == attempt), None)


def until(bench: Bench, attempt: str, holds: Callable[[AttemptSnapshot], object]) -> AttemptSnapshot:
    deadline = time.monotonic() + 30
    executor = bench.executor()
    while True:
        snapshot = seen(executor, attempt)
        if snapshot is not None and holds(snapshot):
            return snapshot
        assert time.monotonic() < deadline, snapshot
        bench.step()


def over(snapshot: AttemptSnapshot) -> bool:
    return snapshot.state in ("exited", "lost")


def ready(bench: Bench, attempt: str) -> None:
    deadline = time.monotonic() + 30
    while not bench.executor().log(attempt, "out", 0, 100):
        assert time.monotonic() < deadline
        bench.step()


def why(snapshot: AttemptSnapshot) -> tuple[End, Cause]:
    end, cause, _ = classify(
        exit_code=snapshot.exit_code,
        over_time=snapshot.over_time,
        over_memory=snapshot.over_memory,
        missing_outputs=snapshot.missing_outputs,
        log_tail=snapshot.log_tail,
    )
    return end, cause


def test_submitting_twice_runs_once(bench: Bench) -> None:
    made = spec("A-j1.1", "echo ran; exit 3")
    for _ in range(3):
        submit(bench, made, Behaviour(exit_code=3, out=b"ran\n"))
    snapshot = until(bench, "A-j1.1", over)
    assert (snapshot.state, snapshot.exit_code) == ("exited", 3)
    submit(bench, made, Behaviour(exit_code=3, out=b"ran\n"))
    assert seen(bench.executor(), "A-j1.1") == snapshot
    assert bench.starts("A-j1.1") == 1


def test_completed_is_exit_0_with_its_outputs(bench: Bench) -> None:
    submit(bench, spec("A-j1.1", "mkdir out; echo x >out/weights", outputs=("out",)), Behaviour())
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.missing_outputs == ()
    assert why(snapshot) == ("completed", "none")


def test_a_swallowed_failure_is_completed_without_output(bench: Bench) -> None:
    """F15: `false | tee log; exit 0` with a declared output missing."""
    made = spec("A-j1.1", "false | tee log; exit 0", outputs=("model.safetensors", "log"))
    submit(bench, made, Behaviour(missing=("model.safetensors",)))
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.exit_code == 0
    assert snapshot.missing_outputs == ("model.safetensors",)
    assert why(snapshot) == ("completed_without_output", "no_output")


def test_what_was_there_before_is_no_output(local: Local) -> None:
    """F15, S98: outputs have to be new, each by itself, and stay judged as they were at the end."""
    home = local.homes.open("A")
    for name in ("same", "touched", "replaced", "folder/kept", "emptied/file"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("old")
    names = ("same", "touched", "replaced", "folder", "emptied", "new", "never", "../A/home/same")
    script = (
        "echo new >>touched; echo new >next; mv next replaced; rm emptied/file;"
        "mkdir new; ln -s nowhere new/link; echo x >new/shard"
    )
    submit(local, spec("A-j1.1", script, outputs=names), Behaviour())
    snapshot = until(local, "A-j1.1", over)
    assert snapshot.missing_outputs == ("same", "folder", "emptied", "never", "../A/home/same")
    (home / "never").write_text("later")
    assert seen(local.executor(), "A-j1.1") == snapshot


def test_a_second_submit_does_not_move_the_line_between_old_and_new(local: Local) -> None:
    made = spec("A-j1.1", "echo x >out; echo ready; exec sleep 60", outputs=("out",))
    submit(local, made, Behaviour())
    ready(local, "A-j1.1")
    submit(local, made, Behaviour())
    local.executor().cancel("A-j1.1")
    assert until(local, "A-j1.1", over).missing_outputs == ()


def test_charged_by_measure(bench: Bench) -> None:
    """F21: what died early lasted as long as it lasted, whatever was declared."""
    made = spec("A-j1.1", "sleep 0.2; exit 1", limit=Micros(3600 * SECOND))
    submit(bench, made, Behaviour(runs=Micros(SECOND // 5), exit_code=1))
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.started and snapshot.ended
    assert SECOND // 10 <= snapshot.ended - snapshot.started < 20 * SECOND


@pytest.mark.parametrize("verb", ["cancel", "preempt"])
def test_cancel_and_preempt_give_the_grace(bench: Bench, verb: str) -> None:
    submit(bench, spec("A-j1.1", STUBBORN), Behaviour(runs=None, ignores_term=True, out=b"ready\n"))
    ready(bench, "A-j1.1")
    getattr(bench.executor(), verb)("A-j1.1")
    snapshot = until(bench, "A-j1.1", over)
    assert (snapshot.state, snapshot.exit_code, snapshot.over_time) == ("exited", 137, False)


def test_preempted_with_time_to_save(local: Local) -> None:
    script = "trap 'echo saved >out; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    submit(local, spec("A-j1.1", script, outputs=("out",)), Behaviour())
    ready(local, "A-j1.1")
    local.executor().preempt("A-j1.1")
    snapshot = until(local, "A-j1.1", over)
    assert (snapshot.exit_code, snapshot.missing_outputs) == (0, ())


def test_time_limit(bench: Bench) -> None:
    submit(bench, spec("A-j1.1", "exec sleep 60", limit=Micros(SECOND // 2)), Behaviour(runs=None))
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.over_time
    assert why(snapshot) == ("timed_out", "time_limit")


def test_memory_limit(bench: Bench) -> None:
    script = f"import time; held = bytearray({200 * MIB}); time.sleep(60)"
    made = spec("A-j1.1", "", argv=("python3", "-c", script), memory=Bytes(80 * MIB))
    submit(bench, made, Behaviour(runs=None, memory=Bytes(200 * MIB)))
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.over_memory and (snapshot.peak_memory or 0) > 80 * MIB
    assert why(snapshot) == ("out_of_memory", "host_oom")


def test_a_new_server_adopts_attempts(bench: Bench) -> None:
    made = spec("A-j1.1", "echo ready; exec sleep 60", outputs=("never",))
    submit(bench, made, Behaviour(runs=None, out=b"ready\n", missing=("never",)))
    ready(bench, "A-j1.1")
    first = until(bench, "A-j1.1", lambda snapshot: snapshot.state == "running")
    bench.executor().cancel("A-j1.1")
    snapshot = until(bench, "A-j1.1", over)
    assert (snapshot.started, snapshot.missing_outputs) == (first.started, ("never",))
    assert bench.starts("A-j1.1") == 1


def test_the_tail_of_the_log_ends_with_the_errors(bench: Bench) -> None:
    out, err = b"step 1\n", b"Traceback\nValueError: bad \xff\n"
    script = "printf 'step 1\\n'; printf 'Traceback\\nValueError: bad \\377\\n' >&2; exit 1"
    submit(bench, spec("A-j1.1", script), Behaviour(exit_code=1, out=out, err=err))
    snapshot = until(bench, "A-j1.1", over)
    assert snapshot.log_tail == "step 1\nTraceback\nValueError: bad \N{REPLACEMENT CHARACTER}\n"
    assert bench.executor().log("A-j1.1", "err", -5, 5) == b"ad \xff\n"
    assert why(snapshot) == ("failed", "user_error")


def test_the_cause_is_found_above_a_long_farewell(local: Local) -> None:
    """S12: a launcher's summary after the error doesn't hide what the error was."""
    script = (
        "import sys; print('torch.OutOfMemoryError: CUDA out of memory.', file=sys.stderr)\n"
        "print('step\\n' * 9000)\n"
        "for rank in range(200): print('rank', rank, 'exited with code 1, see above', file=sys.stderr)\n"
        "sys.exit(1)"
    )
    submit(local, spec("A-j1.1", "", argv=("python3", "-c", script)), Behaviour())
    snapshot = until(local, "A-j1.1", over)
    assert len(snapshot.log_tail.encode()) <= 4096 + 600
    assert why(snapshot) == ("out_of_memory", "gpu_oom")


def test_lost(bench: Bench) -> None:
    submit(
        bench,
        spec("A-j1.1", "echo ready; exec sleep 60"),
        Behaviour(runs=None, lost_after=Micros(SECOND), out=b"ready\n"),
    )
    ready(bench, "A-j1.1")
    if isinstance(bench, Local):
        pid = (bench.root / "spool" / "A-j1.1" / "pid").read_text().split()[0]
        os.kill(int(pid), 9)
    snapshot = until(bench, "A-j1.1", over)
    assert (snapshot.state, snapshot.exit_code, snapshot.ended) == ("lost", None, None)


def test_each_attempt_has_private_caches(local: Local) -> None:
    """F28, S34: eight ranks print their cache paths: the attempt's own, local, gone after it, outside the home."""
    names = "PALESTRA_SCRATCH TMPDIR HF_HOME XDG_CACHE_HOME TRITON_CACHE_DIR CUDA_CACHE_PATH"
    each = " ".join(f'"${name}"' for name in names.split())
    script = f"for rank in 0 1 2 3 4 5 6 7; do (printf '%s\\n' {each}; touch $TMPDIR/$rank) & done; wait"
    for attempt in ("A-j1.1", "A-j1.2"):
        submit(local, spec(attempt, script), Behaviour())
    paths = {}
    for attempt in ("A-j1.1", "A-j1.2"):
        assert until(local, attempt, over).exit_code == 0
        paths[attempt] = local.executor().log(attempt, "out", 0, 100_000).decode().split()
        assert len(paths[attempt]) == 8 * 6
        assert len(set(paths[attempt])) == 6
        assert all(Path(path).is_relative_to(local.scratch / attempt) for path in paths[attempt])
        assert not (local.scratch / attempt).exists()
    assert set(paths["A-j1.1"]).isdisjoint(paths["A-j1.2"])
    assert not local.scratch.is_relative_to(local.homes.open("A"))


def test_scratch_is_removed_whatever_was_done_to_it(local: Local) -> None:
    script = 'mkdir "$TMPDIR/shut"; touch "$TMPDIR/shut/file"; ln -s "$HOME" "$TMPDIR/link"; chmod 0 "$TMPDIR/shut"'
    home = local.homes.open("A")
    (home / "precious").touch()
    submit(local, spec("A-j1.1", script, env=(("PATH", PATH), ("HOME", str(home)))), Behaviour())
    assert until(local, "A-j1.1", over).exit_code == 0
    deadline = time.monotonic() + 30
    while list(local.scratch.iterdir()):
        assert time.monotonic() < deadline
        local.step()
    assert (home / "precious").exists()


def test_what_an_attempt_is_told(local: Local) -> None:
    script = "echo $PALESTRA_ATTEMPT $PALESTRA_ATTEMPT_NUMBER $CUDA_VISIBLE_DEVICES; pwd; nice"
    submit(local, spec("A-j7.2", script, gpus=(1, 3), cwd="work"), Behaviour())
    until(local, "A-j7.2", over)
    assert b"work" in local.executor().log("A-j7.2", "err", 0, 1000)  # it wasn't there
    (local.homes.open("A") / "work").mkdir()
    submit(local, spec("A-j7.3", script, gpus=(1, 3), cwd="work"), Behaviour())
    until(local, "A-j7.3", over)
    lines = local.executor().log("A-j7.3", "out", 0, 1000).decode().splitlines()
    assert lines[0] == "A-j7.3 3 1,3"
    assert lines[1] == str(local.homes.open("A") / "work")
    assert int(lines[2]) >= 10


def test_nodes_and_what_holds_on_them(bench: Bench) -> None:
    executor = bench.executor()
    assert executor.nodes() == [NodeSnapshot("one", up=True), NodeSnapshot("two", up=True)]
    capabilities = executor.capabilities()
    assert (capabilities.kill, capabilities.memory, capabilities.isolation) == (
        "process-tree",
        "watched",
        "none",
    )


def test_a_node_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(Broken, match="no node 'three'"):
        submit(bench, spec("A-j1.1", "exit 0", node="three"), Behaviour())
    assert bench.executor().poll() == []


def test_the_key_is_the_attempt(bench: Bench) -> None:
    with pytest.raises(BadInput, match="key"):
        bench.executor().submit(spec("A-j1.1", "exit 0"), "A-j2.1")


def test_unreachable_is_not_lost() -> None:
    """Nothing is concluded from an engine that can't be asked."""
    bench = Fake()
    submit(bench, spec("A-j1.1", ""), Behaviour(exit_code=2))
    bench.fake.unreachable = "no answer in 9 s"
    assert bench.fake.poll() == Unreachable("no answer in 9 s")
    with pytest.raises(Broken, match="no answer in 9 s"):
        bench.fake.submit(spec("A-j2.1", ""), "A-j2.1")
    bench.fake.unreachable = ""
    assert until(bench, "A-j1.1", over).exit_code == 2


def test_a_disk_that_fails_is_unreachable_not_lost(local: Local) -> None:
    submit(local, spec("A-j1.1", "exit 2", outputs=("never",)), Behaviour())
    deadline = time.monotonic() + 30
    while not (local.root / "spool" / "A-j1.1" / "status").exists():
        assert time.monotonic() < deadline
        local.step()
    executor = local.executor()
    notes = (local.root / "notes").rename(local.root / "away")
    (local.root / "notes").touch()
    assert isinstance(executor.poll(), Unreachable)
    with pytest.raises(Broken, match="can't be started"):
        executor.submit(spec("A-j2.1", "exit 0"), "A-j2.1")
    (local.root / "notes").unlink()
    notes.rename(local.root / "notes")
    snapshot = seen(executor, "A-j1.1")
    assert snapshot is not None and (snapshot.exit_code, snapshot.missing_outputs) == (2, ("never",))
