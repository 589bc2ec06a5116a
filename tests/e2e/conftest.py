"""What the end-to-end tests share: a base and a pool made once, and one pocket arena run to its end."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.arena import MADE, POCKET, Arena, Finished, lay_out


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny base and its pool: those of the pocket arena where they are made already, as training takes a while."""
    there = POCKET / "made"
    if all((there / name).is_dir() and not (there / f"{name}.preparing").exists() for name in MADE):
        return there
    folder = tmp_path_factory.mktemp("made")
    for words in (
        ("palestra_kit.models", "tiny", "--out", str(folder / "tiny-base")),
        ("palestra_kit.tasks", "pool", "--tier", "tiny", "--out", str(folder / "tiny-pool"), "--seed", "11"),
    ):
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def pocket(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """The pocket arena as it is, run once to its scored end."""
    place = tmp_path_factory.mktemp("pocket")
    competition = lay_out(POCKET, made, place / "pocket-arena")
    toml = (
        competition / "competition.toml"
    )  # a busy machine must not make the stage too short; it ends when all are done
    toml.write_text(toml.read_text().replace('running = "2m30s"', 'running = "15m"'))
    with Arena(competition, place / "runs") as arena:
        server = arena.serve("--until-end")
        yield Finished(competition, arena.folder.path, server.leave(1800), server.said())


@pytest.fixture
def copy(pocket: Finished, tmp_path: Path) -> Path:
    """A copy of that run, to be spoilt."""
    shutil.copytree(pocket.folder, tmp_path / "run", symlinks=True)
    return tmp_path / "run"
