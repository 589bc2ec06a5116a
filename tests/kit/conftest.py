"""What the kit's tests share: one tiny base with its pool and an adapter for a whole test run, and model servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.running import Arena, Server, kit


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    folder = tmp_path_factory.mktemp("arena")
    kit("tasks", "pool", "--tier", "tiny", "--out", folder / "data", "--seed", 3)
    pool, dev, clean = folder / "data" / "pool.jsonl", folder / "data" / "dev.jsonl", folder / "clean.jsonl"
    kit("clean", "--pool", pool, "--dev", dev, "--out", clean)
    kit("models", "tiny", "--out", folder / "base")
    return Arena(folder / "base", pool, dev, clean)


@pytest.fixture(scope="session")
def adapter(arena: Arena) -> Path:
    """A LoRA adapter trained on the cleaned pool with the default settings."""
    out = arena.base.with_name("lora")
    kit("sft", "--base", arena.base, "--data", arena.clean, "--out", out)
    return out


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start model servers; each is killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> Server:
        path = tmp_path / f"s{len(started)}"
        argv = [sys.executable, "-m", "palestra_kit.serve", *map(str, arguments), "--socket", str(path)]
        with (tmp_path / f"log{len(started)}").open("w") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return Server(path, process)

    yield start
    for process in started:
        process.kill()
        process.wait()
