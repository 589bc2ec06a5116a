"""What the shim promises by itself, with no server or a broken one: whole trees end, limits hold, one command a folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from palestra.cluster import processes as module
from palestra.cluster import shim, tree
from palestra.cluster.processes import LocalProcesses
from palestra.cluster.spool import Spool
from palestra.ports import Process, ProcessSnapshot
from palestra.rules.errors import BadInput
from palestra.rules.units import MIB, SECOND, Bytes, Micros

SHELLS = [path for name in ("dash", "bash") if (path := shutil.which(name))]
STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"
ENV = (("PATH", os.environ.get("PATH", "/usr/bin:/bin")),)
LIMIT = Micros(30 * SECOND)
GRACE = Micros(SECOND // 2)


class Place:
    """A spool for one test, with what the tests ask of it."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.shell = shell
        self.prefix = f"test:{folder}:"

    def processes(self) -> LocalProcesses:
        return LocalProcesses(self.folder, self.prefix, shell=self.shell, sample_every=Micros(0))

    def start(
        self, key: str, *argv: str, limit: Micros = LIMIT, grace: Micros = GRACE, memory: Bytes | None = None
    ) -> None:
        process = Process(argv=argv, cwd=str(self.folder), env=ENV, limit=limit, grace=grace, memory=memory)
        self.processes().start(process, key)

    def alive(self, key: str) -> set[int]:
        """Whoever carries the key's unit, whatever session it is in."""
        unit = self.spool(key).unit()
        return tree.members([tree.Command(unit, None)], tree.everyone())[unit]

    def ended(self, key: str) -> ProcessSnapshot:
        snapshots: list[ProcessSnapshot] = []
        processes = self.processes()

        def gone() -> bool:
            snapshots[:] = [one for one in processes.poll() if one.key == key and one.state != "running"]
            return bool(snapshots)

        until(gone)
        return snapshots[0]

    def spool(self, key: str) -> Spool:
        return Spool(self.folder / key)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(params=SHELLS, ids=lambda path: Path(path).name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "spool", request.param)
    yield made
    for snapshot in made.processes().poll():
        for pid in made.alive(snapshot.key):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_nobody_of_the_tree_is_left_when_the_status_appears(place: Place) -> None:
    """F16: a grandchild in a session of its own that ignores TERM is killed before the slot counts as free."""
    script = f"setsid sh -c \"echo up; {STUBBORN}\" & setsid sh -c 'setsid sleep 60' & exec sleep 60"
    place.start("a", "sh", "-c", script)
    until(lambda: place.processes().log("a", "out", 0, 10) and len(place.alive("a")) >= 4)
    place.processes().stop("a")
    until((place.folder / "a" / "status").exists)
    assert place.alive("a") == set()
    snapshot = place.ended("a")
    assert snapshot.exit_code == 143
    assert snapshot.started and snapshot.ended and snapshot.ended - snapshot.started >= GRACE


def test_what_outlives_a_clean_exit_is_ended_too(place: Place) -> None:
    """F16: also when the command itself ended well; its code stays."""
    place.start("a", "sh", "-c", f'setsid sh -c "{STUBBORN}" & exit 0')
    until((place.folder / "a" / "status").exists)
    assert place.alive("a") == set()
    assert place.ended("a").exit_code == 0


def test_a_child_without_the_variable_is_found_by_its_session_or_parent(place: Place) -> None:
    by_session = "env -i sh -c 'exec sleep 61' &"
    by_parent = "env -i setsid sh -c 'exec sleep 62' &"
    place.start("a", "sh", "-c", f"{by_session} {by_parent} wait")
    until(lambda: len(working_in(place.folder)) >= 3)
    place.processes().stop("a")
    place.ended("a")
    assert working_in(place.folder) == set()


def working_in(folder: Path) -> set[int]:
    """Processes whose current folder this is: the tests here start their commands in `place.folder`."""
    found = set()
    for seen in tree.everyone().values():
        with suppress(OSError):
            if Path(f"/proc/{seen.pid}/cwd").samefile(folder):
                found.add(seen.pid)
    return found


def test_a_daemon_without_a_trace_is_found_among_our_children(place: Place) -> None:
    """It clears its environment, leaves the session and loses its parent: as an orphan it comes to the shim."""
    script = "(env -i setsid sh -c 'trap \"\" TERM; sleep 63 & wait' &); exit 7"
    place.start("a", "sh", "-c", script)
    until((place.folder / "a" / "status").exists)
    assert working_in(place.folder) == set()
    assert place.ended("a").exit_code == 7


def test_what_becomes_another_process_all_the_time_is_caught(place: Place) -> None:
    """A chain of forks and exits, gone from each look at it before it can be killed; it would end by itself in the end."""
    chain = (
        "import os\nfor n in range(20000):\n    if os.fork(): os._exit(0)\n    if n % 3 == 0: os.setsid()\n"
    )
    place.start("a", sys.executable, "-S", "-c", chain, grace=Micros(SECOND // 10))
    until((place.folder / "a" / "status").exists)
    assert working_in(place.folder) == set()
    assert place.ended("a").exit_code == 0


def test_the_time_limit_holds_while_the_server_is_dead(place: Place) -> None:
    """Design 5: the shim keeps the limit itself."""
    server = (
        "import sys; from pathlib import Path; from palestra.cluster.processes import LocalProcesses\n"
        "from palestra.ports import Process\n"
        "spool, prefix, shell, script, path = sys.argv[1:]\n"
        "process = Process(argv=('sh', '-c', script), cwd='/', env=(('PATH', path),), limit=700_000, grace=300_000)\n"
        "LocalProcesses(Path(spool), prefix, shell=shell).start(process, 'a')\n"
        "print('started', flush=True); sys.stdin.read()\n"
    )
    script = f'setsid sh -c "{STUBBORN}" & {STUBBORN}'
    argv = [sys.executable, "-c", server, str(place.folder), place.prefix, place.shell, script, ENV[0][1]]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout and started.stdout.readline() == b"started\n"
        started.kill()
    until((place.folder / "a" / "status").exists)
    assert place.alive("a") == set()
    snapshot = place.ended("a")
    assert (snapshot.exit_code, snapshot.over_time) == (137, True)
    assert snapshot.started and snapshot.ended and snapshot.ended - snapshot.started >= 1_000_000


def test_a_stop_file_is_enough(place: Place) -> None:
    """A server that dies between writing the stop and signalling has still stopped it."""
    place.start("a", "sleep", "60")
    until(lambda: place.spool("a").watcher())
    place.spool("a").ask_to_stop(Micros(1))
    until((place.folder / "a" / "status").exists)
    assert place.ended("a").exit_code == 143


def test_a_stop_before_the_shim_began_runs_nothing(place: Place) -> None:
    claim(place, "a", "sh", "-c", "echo ran")
    place.processes().stop("a")
    snapshot = place.ended("a")
    assert snapshot.exit_code == 143
    assert place.processes().log("a", "out", 0, 10) == b""


def claim(place: Place, key: str, *argv: str) -> None:
    """What a server leaves that dies between claiming a key and starting its shim."""
    place.processes()
    folder = place.folder / key
    folder.mkdir()
    shim.prepare(folder, Process(argv=argv, cwd="/", env=ENV, limit=LIMIT), place.prefix + key)


def test_a_claimed_key_is_started_by_the_next_server(place: Place) -> None:
    claim(place, "a", "sh", "-c", "echo ran; exit 9")
    assert place.ended("a").exit_code == 9
    assert place.processes().log("a", "out", 0, 100) == b"ran\n"


def test_of_many_shims_one_runs_the_command(place: Place) -> None:
    claim(place, "a", "sh", "-c", "echo ran; sleep 0.3; exit 9")
    for _ in range(8):
        shim.launch(place.folder / "a", place.shell)
    assert place.ended("a").exit_code == 9
    one_more_shim(place, "a")
    assert place.ended("a").exit_code == 9
    assert place.processes().log("a", "out", 0, 100) == b"ran\n"


def one_more_shim(place: Place, key: str) -> None:
    """Started, and past the point where it would have gone on."""
    shim.launch(place.folder / key, place.shell)
    until(lambda: not working_in(place.folder / key))


def test_what_could_never_be_started_is_lost_for_good(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(place, "a", "sh", "-c", "echo ran")
    monkeypatch.setattr(module, "GIVE_UP", Micros(0))
    assert place.ended("a").state == "lost"
    one_more_shim(place, "a")
    assert place.ended("a").state == "lost"
    assert place.processes().log("a", "out", 0, 10) == b""


def test_a_killed_shim_takes_its_tree_along_and_is_lost(place: Place) -> None:
    place.start("a", "sh", "-c", f"echo up; {STUBBORN}")
    until(lambda: place.processes().log("a", "out", 0, 10) and place.spool("a").watcher())
    begun = place.spool("a").begun()
    watcher = place.spool("a").watcher()
    assert begun and watcher
    os.kill(watcher, signal.SIGKILL)
    os.kill(begun.pid, signal.SIGKILL)
    snapshot = place.ended("a")
    assert (snapshot.state, snapshot.exit_code, snapshot.ended) == ("lost", None, None)
    assert place.alive("a") == set()


def test_a_watcher_that_lost_its_shim_ends_the_tree(place: Place) -> None:
    """No server is needed for that either."""
    place.start("a", "sh", "-c", f"echo up; {STUBBORN}")
    until(lambda: place.processes().log("a", "out", 0, 10) and place.spool("a").watcher())
    begun = place.spool("a").begun()
    watcher = place.spool("a").watcher()
    assert begun and watcher
    os.kill(begun.pid, signal.SIGKILL)
    until(lambda: not begun.lives())
    os.kill(watcher, signal.SIGUSR1)  # it would look round by itself within seconds
    until(lambda: not place.alive("a"))


def test_the_server_keeps_the_limit_when_the_watcher_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLACK", Micros(0))
    place.start("a", "sh", "-c", f"echo up; {STUBBORN}", limit=Micros(SECOND), grace=Micros(SECOND // 10))
    until(lambda: place.processes().log("a", "out", 0, 10) and place.spool("a").watcher())
    watcher = place.spool("a").watcher()
    assert watcher
    os.kill(watcher, signal.SIGKILL)
    snapshot = place.ended("a")
    assert (snapshot.exit_code, snapshot.over_time) == (137, True)


def test_an_over_memory_mark_outlives_the_server_that_wrote_it(place: Place) -> None:
    """The kill that was to follow is done by the next server."""
    place.start("a", "sleep", "60", memory=Bytes(900 * MIB))
    until(lambda: place.alive("a"))
    place.spool("a").mark_over_memory(Bytes(901 * MIB))
    snapshot = place.ended("a")
    assert (snapshot.exit_code, snapshot.over_memory) == (137, True)


def test_memory_is_that_of_the_whole_tree(place: Place) -> None:
    hold = f"import time; held = bytearray({60 * MIB}); time.sleep(60)"
    script = f'for i in 1 2 3; do "{sys.executable}" -c "{hold}" & done; wait'
    place.start("a", "sh", "-c", script, memory=Bytes(150 * MIB))
    snapshot = place.ended("a")
    assert snapshot.over_memory
    assert place.alive("a") == set()


def test_shared_pages_count_once(place: Place) -> None:
    """Eight forked data loaders don't make the parent's memory eight times as large."""
    script = (
        f"import os, time\nheld = b'x' * {100 * MIB}\n"
        "for _ in range(8):\n    if os.fork() == 0: break\n"
        "print('up', flush=True); time.sleep(60)"
    )
    place.start("a", sys.executable, "-c", script, memory=Bytes(300 * MIB))
    until(lambda: place.processes().log("a", "out", 0, 100).count(b"up") == 9)
    until(lambda: [one.peak_memory for one in place.processes().poll() if (one.peak_memory or 0) > 100 * MIB])
    assert [(one.state, one.over_memory) for one in place.processes().poll()] == [("running", False)]


def test_the_environment_is_exactly_what_was_given(place: Place) -> None:
    given = {
        "PATH": ENV[0][1],
        "QUOTED": "a 'b' \"c\" $HOME `x` \\ \n end\n",
        "BYTES": os.fsdecode(bytes(range(1, 256))),
        "EMPTY": "",
        "with-dash": "1",
        "UID": "12",
        "PPID": "13",
        "IFS": "x",
        "PWD": "/nowhere",
        "OPTIND": "words",
    }
    process = Process(argv=("env", "-0"), cwd="/", env=tuple(given.items()), limit=LIMIT)
    place.processes().start(process, "a")
    assert place.ended("a").exit_code == 0
    lines = place.processes().log("a", "out", 0, 10_000).split(b"\0")[:-1]
    got = {
        os.fsdecode(name): os.fsdecode(value) for name, _, value in (line.partition(b"=") for line in lines)
    }
    assert got == given | {"PALESTRA_UNIT": place.spool("a").unit()}


def test_arguments_and_folder_arrive_as_given(place: Place, tmp_path: Path) -> None:
    cwd = tmp_path / 'it\'s a -n "folder"\n'
    cwd.mkdir()
    words = (
        "-c",
        "import os, sys; print([os.fsencode(w) for w in sys.argv[1:]], os.getcwd() == sys.argv[1])",
    )
    odd = ("$HOME", "a\nb", "", "'", "*", os.fsdecode(b"\xff\x81"), "-e")
    place.processes().start(Process(argv=("python3", *words, str(cwd), *odd), cwd=str(cwd), env=ENV), "a")
    assert place.ended("a").exit_code == 0
    expected = f"{[os.fsencode(word) for word in (str(cwd), *odd)]} True\n"
    assert place.processes().log("a", "out", 0, 10_000).decode() == expected


def test_what_cannot_run_says_so_in_its_log(place: Place) -> None:
    place.start("a", "no-such-program")
    place.processes().start(Process(argv=("true",), cwd="/no/such/folder", env=ENV), "b")
    assert place.ended("a").exit_code == 127
    assert b"no-such-program" in place.processes().log("a", "err", 0, 1000)
    assert place.ended("b").exit_code == 126
    assert b"/no/such/folder" in place.processes().log("b", "err", 0, 1000)


def test_how_a_command_died_is_not_written_into_its_log(place: Place) -> None:
    """S23: its log holds its own bytes and nothing else."""
    place.start("a", "sh", "-c", "kill -9 $$")
    assert place.ended("a").exit_code == 137
    assert place.processes().log("a", "err", 0, 100) == b""


def test_secrets_are_for_our_eyes_only(place: Place) -> None:
    place.start("a", "sleep", "60")
    assert (place.folder / "a").stat().st_mode & 0o077 == 0
    assert (place.folder / "a" / "env").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("field", "process"),
    [
        ("argv", Process(argv=(), cwd="/", env=())),
        ("argv", Process(argv=("a=b",), cwd="/", env=())),
        ("argv", Process(argv=("true", "a\0b"), cwd="/", env=())),
        ("cwd", Process(argv=("true",), cwd="here", env=())),
        ("limit", Process(argv=("true",), cwd="/", env=(), limit=Micros(0))),
        ("env", Process(argv=("true",), cwd="/", env=(("a=b", "c"),))),
    ],
)
def test_what_cannot_be_started_is_refused_and_claims_nothing(
    tmp_path: Path, field: str, process: Process
) -> None:
    processes = LocalProcesses(tmp_path / "spool", "test:bad:")
    with pytest.raises(BadInput, match=field):
        processes.start(process, "a")
    assert processes.poll() == []
    assert list((tmp_path / "spool").iterdir()) == []


def test_this_host_has_what_the_shim_needs() -> None:
    assert shim.missing_tools() == []


def test_two_runs_of_one_name_do_not_touch_each_other(tmp_path: Path) -> None:
    """Same prefix, same key, same host: ending one leaves the other."""
    one, other = LocalProcesses(tmp_path / "one", "run/a/"), LocalProcesses(tmp_path / "other", "run/a/")
    for processes in (one, other):
        processes.start(Process(argv=("sleep", "60"), cwd="/", env=ENV, limit=LIMIT, grace=GRACE), "A-j1.1")
    one.stop("A-j1.1")
    until(lambda: one.poll()[0].state == "exited")
    assert other.poll()[0].state == "running"
    other.stop("A-j1.1")
    until(lambda: other.poll()[0].state == "exited")
