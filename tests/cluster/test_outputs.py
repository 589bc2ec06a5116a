"""Declared outputs: what is there is told, and what an agent lays there can't lead the server elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palestra.cluster.outputs import newest


def test_a_file_and_the_newest_file_of_a_folder(tmp_path: Path) -> None:
    assert newest(tmp_path / "nothing") is None
    (tmp_path / "out" / "deep").mkdir(parents=True)
    assert newest(tmp_path / "out") is None
    file = tmp_path / "out" / "deep" / "weights"
    file.write_text("12345")
    found = newest(tmp_path / "out")
    assert found is not None and (found.size, found.inode) == (5, file.stat().st_ino)
    assert newest(file) == found


@pytest.mark.parametrize("target", ["/", "/proc", "/etc/passwd", "gone"])
def test_f33_a_link_is_no_output_wherever_it_leads(tmp_path: Path, target: str) -> None:
    """Also one further up the path, and one inside an output's folder."""
    (tmp_path / "out").symlink_to(target)
    assert newest(tmp_path / "out") is None
    assert newest(tmp_path / "out" / "sub") is None
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "link").symlink_to(target)
    assert newest(tmp_path / "real") is None


def test_links_in_a_circle_and_pipes_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert newest(tmp_path / "a") is None
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "pipe")
    assert newest(tmp_path / "out") is None
