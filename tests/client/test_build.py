"""The zipapp: the same bytes every time, and it works where nothing of ours is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palestra.client.build import build

if TYPE_CHECKING:
    from tests.client.conftest import Arena


def system_python() -> str:
    """A Python 3.11 or later that isn't this environment's, where there is one."""
    for name in (
        "/usr/bin/python3",
        "/usr/local/bin/python3",
        shutil.which("python3", path=os.defpath) or "",
    ):
        probe = "import sys; sys.exit(sys.version_info < (3, 11))"
        if Path(name).is_file() and subprocess.run([name, "-c", probe], check=False).returncode == 0:
            return name
    return sys._base_executable  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def command(tmp_path: Path) -> Path:
    return build(tmp_path / "arena")


def run(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def test_the_bytes_are_the_same_every_time(tmp_path: Path, command: Path) -> None:
    done = run(
        sys.executable,
        "-m",
        "palestra.client.build",
        tmp_path / "again",
        **{**os.environ, "TZ": "Asia/Tokyo"},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again").read_bytes() == command.read_bytes()
    assert os.access(command, os.X_OK)
    assert command.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    names = zipfile.ZipFile(command).namelist()
    assert [name for name in names if not name.startswith("palestra/client/")] == [
        "__main__.py",
        "palestra/__init__.py",
    ]


def test_it_works_in_an_empty_environment(arena: Arena, command: Path) -> None:
    place = {name: os.environ[name] for name in ("PALESTRA_SOCKET", "PALESTRA_TOKEN", "HOME")}
    done = run(system_python(), "-I", "-S", command, "status", **place)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The pocket arena" in done.stdout
    Path("ckpt").mkdir()
    Path("ckpt/model.safetensors").write_bytes(b"weights")
    assert "checkpoint A-k1" in run(system_python(), "-I", "-S", command, "seal", "ckpt", **place).stdout
    by_shebang = run(command, "--help", PATH=f"{Path(system_python()).parent}:/usr/bin:/bin")
    assert by_shebang.returncode == 0
    assert by_shebang.stdout.startswith("usage: arena VERB")


def test_the_house_and_all_modules_load_from_the_zip(command: Path) -> None:
    for verb in ("house", "submit", "logs", "nominate", "finish", "rules"):
        done = run(system_python(), "-I", "-S", command, verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), verb
    done = run(system_python(), "-I", "-S", command, "house")
    assert done.returncode == 2
    assert "PALESTRA_MODEL" in done.stderr


def test_starting_loads_little(arena: Arena, command: Path) -> None:
    """What makes `arena status` start fast: none of the costly modules is loaded for it."""
    code = "import sys; sys.argv[0:1] = []; import runpy\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
    code += "except SystemExit: print(*sys.modules)"
    place = {name: os.environ[name] for name in ("PALESTRA_SOCKET", "PALESTRA_TOKEN", "HOME")}
    loaded = set(run(sys.executable, "-I", "-S", "-c", code, command, "status", **place).stdout.split())
    assert "palestra.client.connection" in loaded
    costly = {
        "asyncio",
        "subprocess",
        "hashlib",
        "palestra.client.house",
        "palestra.client.manifest",
        "typing_extensions",
    }
    assert loaded & costly == set()


def test_a_wrong_command_line_is_told(tmp_path: Path) -> None:
    for words in ([], ["--help"], [str(tmp_path / "nowhere" / "arena")]):
        done = run(sys.executable, "-m", "palestra.client.build", *words, **os.environ)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
