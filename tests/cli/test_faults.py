"""Everything that may be wrong when an organiser types a command: one clear sentence each, never a traceback."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.terminal import ROOT, child, palestra
from tests.runtime.opening import TOML, opened, write_competition

from palestra.journal.lock import Lock
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.runtime.folder import RunFolder

ON_A_RUN = ("status", "pause", "resume", "stop", "end", "verify")
OLDER = "import sys\nsys.version_info = (3, 10, 1, 'final', 0)\nsys.version = '3.10.1 (main)'\n"
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Block())
sys.argv = ["palestra", *{words!r}]
from palestra.cli.main import main
main()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunFolder]:
    """A run on disk that nobody serves."""
    monkeypatch.chdir(tmp_path)
    made = opened(tmp_path, write_competition(tmp_path))
    journal, record = SqliteJournal(made.folder.path, "small-1"), SqliteRecord(made.folder.path)
    for name in ("competition.toml", "terms.md", "exam.py"):
        record.put((made.folder.competition / name).read_bytes())
    journal.append(made.rows)
    journal.close()
    record.close()
    yield made.folder
    shutil.rmtree(made.folder.sockets(), ignore_errors=True)


@pytest.mark.parametrize("verb", ON_A_RUN)
def test_an_unknown_run(verb: str, tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        said = palestra(verb, place)
        assert said.code == 1
        assert said.sentence == (
            f"run: '{place}' can't be read; a run's folder, made by `palestra run`, has a run.toml; this one hasn't"
        )


@pytest.mark.parametrize("verb", ["pause", "resume", "stop", "end"])
def test_no_server_is_up(verb: str, run: RunFolder) -> None:
    said = palestra(verb, run.path)
    assert said.code == 1
    assert said.sentence.startswith(f"no server answers for {run.path} (")
    assert said.sentence.endswith("; start one with: palestra run --run small")


def test_a_stale_socket_is_no_server(run: RunFolder) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(run.control_socket))
    said = palestra("pause", run.path)
    assert (
        said.code == 1
        and "Connection refused" in said.err
        and said.err.startswith("palestra: no server answers for ")
    )
    assert palestra("status", run.path).out.endswith(
        "no server is up; go on with: palestra run --run small\n"
    )


def test_something_else_that_answers_is_no_server(run: RunFolder) -> None:
    """A socket that accepts and says nothing of sense."""
    import threading

    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(run.control_socket))
        other.listen()

        def hang_up() -> None:
            link, _ = other.accept()
            link.recv(100)
            link.sendall(b"220 mail.example ESMTP\r\n")
            link.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        said = palestra("pause", run.path)
        thread.join()
    assert said.code == 1 and said.sentence.startswith(f"no server answers for {run.path} (")


def test_status_without_a_server_reads_the_journal(run: RunFolder, tmp_path: Path) -> None:
    said = palestra("status", run.path)
    assert said.code == 0 and said.out.startswith("Small: running, as of T+0:00:00\n")
    assert "A Sleeper" in said.out and said.out.endswith(
        "no server is up; go on with: palestra run --run small\n"
    )
    moved = run.path.rename(tmp_path / "elsewhere")
    said = palestra("status", moved)
    assert said.out.endswith(f"no server is up; go on with: palestra run --run elsewhere --runs {tmp_path}\n")
    assert '"served":false' in palestra("status", moved, "--json").out


def test_a_run_is_served_by_one_process(run: RunFolder) -> None:
    """F02."""
    lock = Lock(run.path)
    said = palestra("run", "--run", "small")
    lock.close()
    assert said.code == 1
    assert said.sentence == (
        f"{run.path}: this run is being served by process {os.getpid()}; a run has one writer, so stop that one first"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "competition: '' can't be read; give a competition to open a new run, or --run NAME to go on with one"),
        (["--run", "nothing"], "--run: 'nothing' can't be read; there is no such run in runs; to open a new one, give its competition too"),
        (["--run", "../x"], "--run: '../x' can't be read; a run's name has letters, digits, '.', '_' and '-', and begins with no mark"),
        (["--run", ".."], "--run: '..' can't be read; a run's name has letters, digits, '.', '_' and '-', and begins with no mark"),
        (["--run", "a b"], "--run: 'a b' can't be read; a run's name has letters, digits, '.', '_' and '-', and begins with no mark"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_meant(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = palestra("run", *words)
    assert (said.code, said.sentence) == (1, sentence)


def test_an_edited_competition_is_refused(run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "competition" / "competition.toml"
    file.write_text(file.read_text().replace('title = "Small"', 'title = "Other"'))
    said = palestra("run", "--run", "small")
    assert said.code == 1
    assert said.sentence.startswith(
        f"{file} was edited since {run.path} opened, and a run's rules don't change by editing"
    )


def test_another_competition_is_refused(run: RunFolder, tmp_path: Path) -> None:
    other = write_competition(tmp_path / "other", toml=TOML.replace("Small", "Large"))
    said = palestra("run", other, "--run", "small")
    assert (
        said.code == 1
        and "is another competition; give --run another name to open a new run" in said.sentence
    )


def test_a_journal_that_contradicts_itself_is_left_alone(run: RunFolder) -> None:
    with sqlite3.connect(run.journal) as base:
        base.execute("UPDATE journal SET body = x'7b7d' WHERE seq = 1")
    base.close()
    said = palestra("run", "--run", "small")
    assert said.code == 75
    assert said.sentence.startswith("the record contradicts itself, so nothing was done: ")
    checked = palestra("verify", run.path)
    assert checked.code == 1 and checked.out.startswith("BROKEN  journal: row 1, ")
    assert checked.err == "NOT ok: the record doesn't bear out what it says\n"


def test_a_journal_of_a_newer_release(run: RunFolder) -> None:
    with sqlite3.connect(run.journal) as base:
        base.execute("PRAGMA user_version = 99")
    base.close()
    for words in (["run", "--run", "small"], ["status", str(run.path)]):
        said = palestra(*words)
        assert said.code == 1
        assert said.sentence == (
            f"{run.journal}: written by a newer release (format 99; this one knows up to 1); install that release or a later one"
        )


def test_a_journal_that_is_gone_or_is_something_else(run: RunFolder) -> None:
    run.journal.write_bytes(b"this is no database, and never was one" * 100)
    said = palestra("run", "--run", "small")
    assert said.code == 75 and "file is not a database" in said.sentence
    run.journal.unlink()
    said = palestra("status", run.path)
    assert (said.code, said.sentence) == (1, f"{run.journal} has no rows, so there is no run to tell of")
    checked = palestra("verify", run.path)
    assert checked.code == 1 and "has no rows" in checked.out


def test_secrets_that_others_can_read(run: RunFolder) -> None:
    (run.secrets / "tokens.json").chmod(0o644)
    said = palestra("run", "--run", "small")
    assert (
        said.code == 1
        and f"others can read {run.secrets}/tokens.json, which is secret; run: chmod 600 " in said.err
    )
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("msgspec", ["check", "x"]),
        ("uvicorn", ["run", "x"]),
        ("zstandard", ["verify", "x"]),
        ("aiohttp", ["run", "x"]),
    ],
)
def test_a_missing_package_is_named(package: str, words: list[str], tmp_path: Path) -> None:
    said = child("-c", BLOCK.format(package=package, words=words), cwd=tmp_path)
    assert said.code == 1
    assert (
        said.sentence
        == f"the Python package '{package}' is missing; install palestra with its dependencies again"
    )


def test_help_needs_no_package_at_all(tmp_path: Path) -> None:
    said = child("-c", BLOCK.format(package="msgspec", words=["--help"]), cwd=tmp_path)
    assert said.code == 0 and said.out.startswith("usage: palestra ")


def older_pythons() -> list[str]:
    """Interpreters before 3.11 on this machine, if there are any."""
    places = [shutil.which(f"python3.{minor}") for minor in (7, 8, 9, 10)]
    places += sorted(str(path) for path in Path.home().glob(".pyenv/versions/3.[789].*/bin/python3"))
    places += sorted(str(path) for path in Path.home().glob(".pyenv/versions/3.10.*/bin/python3"))
    return [place for place in places if place and child("-c", "pass", python=place).code == 0]


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    """Said by the first module that is loaded; an older Python than ours runs the real thing, where there is one."""
    code = (
        OLDER
        + "sys.argv = ['palestra', '--help']\nimport runpy\nrunpy.run_module('palestra', run_name='__main__')"
    )
    said = child("-c", code, cwd=tmp_path)
    assert (said.code, said.out, said.err) == (1, "", "palestra needs Python 3.11 or newer; this is 3.10.1\n")
    for python in older_pythons():
        said = child("-m", "palestra", "check", "x", python=python, cwd=tmp_path)
        assert said.code == 1 and said.out == ""
        assert (
            said.err.startswith("palestra needs Python 3.11 or newer; this is 3.")
            and said.err.count("\n") == 1
        )


def test_a_reader_that_has_seen_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`palestra new x | true`: no complaint about the closed pipe."""
    code = (
        "import os, sys\nfrom palestra.cli.main import main\nreading, writing = os.pipe()\nos.close(reading)\n"
        "os.dup2(writing, 1)\nsys.argv = ['palestra', 'new', 'mine']\nmain()"
    )
    said = child("-c", code, cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert (tmp_path / "mine" / "competition.toml").exists()


def test_the_sources_here_are_the_ones_under_test() -> None:
    said = child("-c", "import palestra; print(palestra.__file__)")
    assert said.out.strip() == str(ROOT / "src/palestra/__init__.py")
