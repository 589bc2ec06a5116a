"""`palestra new`: a whole competition that `palestra check` accepts as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminal import palestra


def test_what_new_makes_check_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = palestra("new", "my-arena")
    assert made.code == 0 and made.err == ""
    assert made.out == (
        "made my-arena/: read its README.md and competition.toml, then:\n  palestra check my-arena\n  palestra run my-arena\n"
    )
    checked = palestra("check", "my-arena")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.startswith(f"{tmp_path}/my-arena/competition.toml: my-arena, 1 entrant, 1 node\n")
    assert "isolation: none" in checked.out and "slots; shared CPU time, nothing is bound" in checked.out
    assert "will be prepared at the first run: base" in checked.out
    assert checked.out.splitlines()[-1] == "ready: palestra run my-arena"


def test_the_name_is_filled_in_everywhere(tmp_path: Path) -> None:
    assert palestra("new", tmp_path / "a1").code == 0
    files = sorted(
        str(path.relative_to(tmp_path / "a1")) for path in (tmp_path / "a1").rglob("*") if path.is_file()
    )
    assert files == ["README.md", "competition.toml", "exam.py", "playbooks/first.toml", "terms.md"]
    for file in files:
        assert "@NAME@" not in (tmp_path / "a1" / file).read_text()
    assert 'name = "a1"' in (tmp_path / "a1" / "competition.toml").read_text()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "Big", "-x", "under_score", "blank name", "x" * 42, "käse", "a/", "a/.."]
)
def test_names_that_make_no_folder(tmp_path: Path, name: str) -> None:
    said = palestra("new", f"{tmp_path}/{name}" if name else "")
    if name == "a/":  # a slash at the end is how shells complete names
        assert said.code == 0
        return
    assert said.code == 1
    assert (
        "a competition's name has small letters, digits and '-', at most 41, and begins with a letter or digit"
        in said.sentence
    )
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    said = palestra("new", tmp_path / "mine")
    assert said.code == 1 and said.sentence == f"{tmp_path}/mine is there already; nothing was changed"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


def test_a_place_that_isnt_there_is_made(tmp_path: Path) -> None:
    assert palestra("new", tmp_path / "far" / "away").code == 0
    (tmp_path / "file").write_text("")
    said = palestra("new", tmp_path / "file" / "x1")
    assert said.code == 1 and said.sentence.startswith(f"{tmp_path}/file")
