"""Homes: made once, and measured by what they take up on disk."""

import os
from pathlib import Path

import pytest

from palestra.cluster.homes import FolderHomes
from palestra.rules.errors import BadInput
from palestra.rules.units import KIB, MIB


def test_a_home_is_made_once(tmp_path: Path) -> None:
    homes = FolderHomes(tmp_path)
    home = homes.open("A")
    assert home == tmp_path / "A" / "home"
    (home / "kept").touch()
    assert homes.open("A") == home and (home / "kept").exists()


def test_usage_counts_blocks_and_each_file_once(tmp_path: Path) -> None:
    homes = FolderHomes(tmp_path)
    assert homes.usage("A") == 0
    home = homes.open("A")
    empty = homes.usage("A")
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "er" / "file").write_bytes(os.urandom(64 * KIB))
    one = homes.usage("A")
    assert 64 * KIB <= one - empty < 128 * KIB
    (home / "again").hardlink_to(home / "deep" / "er" / "file")
    (home / "loop").symlink_to(home)
    (home / "away").symlink_to("/usr")
    assert homes.usage("A") - one < 32 * KIB
    with (home / "sparse").open("wb") as file:
        file.truncate(64 * MIB)
    assert homes.usage("A") - one < MIB


def test_usage_is_that_of_one_corner(tmp_path: Path) -> None:
    homes = FolderHomes(tmp_path)
    (homes.open("A") / "file").write_bytes(os.urandom(64 * KIB))
    assert homes.usage("A") > homes.usage("B") == 0


@pytest.mark.parametrize("corner", ["", "..", "a/b", "../x", ".", "a\n"])
def test_a_corner_is_a_plain_name(tmp_path: Path, corner: str) -> None:
    with pytest.raises(BadInput, match="corner"):
        FolderHomes(tmp_path / "homes").open(corner)
