"""Opening an entrant's files: links, devices and paths that leave the folder reach nothing (F33)."""

import os
from pathlib import Path

import pytest

from palestra.rules.errors import Refusal
from palestra.vault.codes import SOURCE_CHANGED, UNSAFE_FILE
from palestra.vault.source import Source


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "secret.json").write_text("another's")
    (tmp_path / "homes/A/checkpoint/inner").mkdir(parents=True)
    (tmp_path / "homes/A/checkpoint/inner/a.json").write_text("mine")
    return tmp_path / "homes/A"


def code_of(folder: Path, name: str, below: Path | None = None) -> str:
    with pytest.raises(Refusal) as caught, Source(folder, below) as source:
        source.open(name).close()
    return caught.value.code


def test_a_plain_file_is_opened(home: Path) -> None:
    with Source(home / "checkpoint") as source, source.open("inner/a.json") as file:
        assert file.read() == b"mine"


@pytest.mark.parametrize(
    "name", ["../../../secret.json", "inner/../../x", "/etc/hostname", "inner//a.json", "./inner", ""]
)
def test_names_that_leave_the_folder_are_unsafe(home: Path, name: str) -> None:
    """F33."""
    assert code_of(home / "checkpoint", name) == UNSAFE_FILE


def test_links_are_unsafe_wherever_they_stand(home: Path, tmp_path: Path) -> None:
    """F33: a link to a file, to a folder, a hard link, and the sealed folder itself as a link."""
    checkpoint = home / "checkpoint"
    (checkpoint / "link.json").symlink_to(tmp_path / "secret.json")
    (checkpoint / "folder").symlink_to(tmp_path)
    (checkpoint / "hard.json").hardlink_to(tmp_path / "secret.json")
    (home / "shortcut").symlink_to(checkpoint)
    for name in ("link.json", "folder/secret.json", "hard.json"):
        assert code_of(checkpoint, name) == UNSAFE_FILE
    assert code_of(home / "shortcut", "inner/a.json") == UNSAFE_FILE
    assert code_of(home / "shortcut/inner", "a.json", home) == UNSAFE_FILE


def test_a_pipe_or_a_folder_is_no_file(home: Path) -> None:
    """F33: a device doesn't hang the copy."""
    os.mkfifo(home / "checkpoint/pipe.json")
    for name in ("pipe.json", "inner"):
        assert code_of(home / "checkpoint", name) == UNSAFE_FILE


def test_links_above_the_homes_are_the_organisers_own(home: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").symlink_to(tmp_path / "homes")
    with (
        Source(tmp_path / "disk/A/checkpoint", tmp_path / "disk") as source,
        source.open("inner/a.json") as file,
    ):
        assert file.read() == b"mine"
    assert code_of(tmp_path / "disk/A/checkpoint", "inner/a.json") == UNSAFE_FILE


def test_a_folder_outside_the_homes_is_unsafe(home: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, home / "../../x", Path("relative")):
        assert code_of(folder, "secret.json", home) == UNSAFE_FILE


def test_what_is_gone_has_changed(home: Path) -> None:
    """S82: a deleted file or folder is a clear answer."""
    assert code_of(home / "checkpoint", "inner/b.json") == SOURCE_CHANGED
    assert code_of(home / "checkpoint", "inner/a.json/x") == SOURCE_CHANGED
    assert code_of(home / "gone", "inner/a.json") == SOURCE_CHANGED
