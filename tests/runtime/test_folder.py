"""A run's folder: what is where, who may read it, and what is refused."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from palestra.rules.errors import BadInput, Broken
from palestra.runtime.folder import RunFile, RunFolder, digest_folder

FILE = RunFile("small-1", "/competitions/small/competition.toml", "/models/base", "0.1")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.make()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_a_run_once_its_file_is_written(folder: RunFolder) -> None:
    assert not folder.exists
    with pytest.raises(BadInput) as told:
        folder.read()
    assert str(told.value) == (
        f"run: '{folder.path}' can't be read; a run's folder, made by `palestra run`, has a run.toml; this one hasn't"
    )
    folder.write(FILE)
    assert folder.run_file.exists()
    assert folder.read() == FILE
    assert folder.run_file.read_text().startswith("# Written by palestra run; don't edit.\n")


@pytest.mark.parametrize("name", ['a"b\\c', "line\nend", "käse 🙂", "${HOME}", "'''"])
def test_odd_paths_come_back_as_they_were(folder: RunFolder, name: str) -> None:
    file = RunFile("small-1", f"/{name}/competition.toml", f"/{name}", "0.1")
    folder.write(file)
    assert folder.read() == file


@pytest.mark.parametrize(
    "text", ["", "run = ", 'run = "x"', "run = 3\nsource = 'a'\nbase = 'b'\nrelease = 'c'"]
)
def test_a_damaged_file_is_said_to_be_one(folder: RunFolder, text: str) -> None:
    folder.run_file.write_text(text)
    with pytest.raises(BadInput, match=r"run.toml: .* can't be read; put it back as it was: "):
        folder.read()


def test_secrets_are_their_owners_alone(folder: RunFolder) -> None:
    umask = os.umask(0)
    try:
        again = RunFolder(folder.path.with_name("open"))
        again.make()
        again.write_secret("tokens.json", b"{}")
    finally:
        os.umask(umask)
    assert (mode(again.secrets), mode(again.secrets / "tokens.json")) == (0o700, 0o600)
    assert again.read_secret("tokens.json") == b"{}"
    (again.secrets / ".tokens.json.draft").write_bytes(b"half wri")  # what a killed server left
    again.write_secret("tokens.json", b"new")
    assert again.read_secret("tokens.json") == b"new"
    assert [path.name for path in again.secrets.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o610, 0o602])
def test_a_secret_that_others_can_reach_is_refused(folder: RunFolder, bits: int) -> None:
    folder.write_secret("exam.seed", b"5eed")
    path = folder.secrets / "exam.seed"
    path.chmod(bits)
    with pytest.raises(Broken) as told:
        folder.read_secret("exam.seed")
    assert str(told.value) == f"others can read {path}, which is secret; run: chmod 600 {path}"


def test_sockets_lie_in_a_short_folder_of_ours_the_same_every_time(tmp_path: Path) -> None:
    deep = RunFolder(tmp_path / ("deep/" * 30))
    assert deep.control_socket == RunFolder(deep.path).control_socket
    assert len(str(deep.corner_socket("A"))) < 100
    assert (
        mode(deep.sockets()) == mode(deep.sockets().parent) == mode(deep.corner_socket("A").parent) == 0o700
    )
    assert deep.corner_socket("A") != deep.corner_socket("B") != RunFolder(tmp_path / "x").corner_socket("B")


def test_sockets_stay_where_they_are_whatever_the_shells_tmpdir(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents that outlived a server know the old place; organisers' commands come from other shells."""
    first = folder.corner_socket("A")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
        assert RunFolder(folder.path).corner_socket("A") == first
    for part in (first.parent, folder.sockets()):
        part.rmdir()  # a reboot empties the temporary folder
    assert RunFolder(folder.path).corner_socket("A") == first
    assert first.parent.is_dir()


def test_a_copied_run_has_sockets_of_its_own(folder: RunFolder) -> None:
    """Otherwise orders to the copy would reach the original's server."""
    first = folder.control_socket
    copy = folder.path.with_name("copy")
    shutil.copytree(folder.path, copy, symlinks=True)
    assert RunFolder(copy).control_socket != first
    assert folder.control_socket == first


@pytest.mark.parametrize("place", ["a file", "a link", "open to all", "a dangling link"])
def test_a_socket_folder_that_isnt_ours_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whoever can write there could answer in the server's place."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = tmp_path / f"palestra-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    match place:
        case "a file":
            ours.write_text("")
        case "a link":
            ours.symlink_to(tmp_path / "elsewhere")
        case "open to all":
            ours.mkdir()
            ours.chmod(0o777)
        case _:
            ours.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Broken) as told:
        _ = RunFolder(tmp_path / "run").control_socket
    assert str(told.value) == (
        f"{ours} must be a folder of yours that nobody else can enter (mode 0700), as sockets are made there; "
        "remove it and start again"
    )


def test_where_no_sockets_can_be_made_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(Broken) as told:
        RunFolder(tmp_path / "run").sockets()
    place = tmp_path / "nowhere" / f"palestra-{os.getuid()}"
    assert str(told.value) == (
        f"no folder for sockets can be made at {place}: No such file or directory; set TMPDIR to a folder that you can write"
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_a_socket_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = tmp_path / f"palestra-{os.getuid()}"
    ours.mkdir(mode=0o700)
    os.chown(ours, 65534, 65534)
    with pytest.raises(Broken, match="must be a folder of yours"):
        RunFolder(tmp_path / "run").sockets()


def test_a_folders_digest_tells_names_and_contents(tmp_path: Path) -> None:
    def made(name: str, **files: str) -> str:
        folder = tmp_path / name
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return digest_folder(folder)

    same = made("one", a="1", b="2")
    assert same == made("two", b="2", a="1")
    others = {
        made("three", a="1", b="3"),
        made("four", a="12"),
        made("five", a="1", c="2"),
        made("six", a="2", b="1"),
    }
    assert len(others | {same}) == 5
    assert same.startswith("sha256:") and len(same) == 71
