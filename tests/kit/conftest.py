"""What the kit's tests share: one tiny base with its pool and an adapter for a whole test run, and model servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.running import Arena, Served, Server, kit, start_server


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


@pytest.fixture(scope="session")
def served(arena: Arena, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The base and one adapter under two names, for all tests that only ask."""
    server = start_server(
        tmp_path_factory.mktemp("served"),
        "--base",
        arena.base,
        "--adapter",
        f"tuned={adapter}",
        "--adapter",
        adapter,
    )
    before: list[int] = []

    def ready(server: Server) -> bool:
        before.append(server.ask("GET", "/health")[0])
        return before[-1] == 200

    try:
        server.wait(ready)
        yield Served(server, before[:-1])
    finally:
        server.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start model servers of one's own; each is killed at the end of the test."""
    started: list[Server] = []

    def start(*arguments: object) -> Server:
        started.append(start_server(tmp_path, *arguments))
        return started[-1]

    yield start
    for server in started:
        server.kill()
