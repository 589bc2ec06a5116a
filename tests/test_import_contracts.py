"""The import contracts bite: a forbidden import planted in a copy of the source breaks the contract that names it."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PURE = ("rules", "events", "state", "referee", "judging", "report")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy; its own `src` stands before the installed one on the path."""
    argv = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200"}
    return subprocess.run(argv, cwd=tree, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "planted", "contract"),
    [
        ("rules/units.py", "import time", "Pure rooms reach no clock"),
        ("state/__init__.py", "from os import path", "Pure rooms reach no clock"),
        ("rules/units.py", "import palestra.events", "Imports go down through the rooms"),
        ("client/__init__.py", "from palestra.rules import units", "The entrant's client is a leaf"),
        ("rules/units.py", "import palestra_kit", "Palestra and the kit don't import each other"),
        ("../palestra_kit/__init__.py", "import palestra", "Palestra and the kit don't import each other"),
        ("attic/__init__.py", '"""A room without a place."""', "Imports go down through the rooms"),
    ],
)
def test_a_planted_import_breaks_its_contract(tree: Path, file: str, planted: str, contract: str) -> None:
    target = tree / "src" / "palestra" / file
    target.parent.mkdir(exist_ok=True)
    with target.open("a", encoding="utf-8") as module:
        module.write(f"\n{planted}\n")
    done = lint(tree)
    verdicts = [line for line in done.stdout.splitlines() if line.startswith(contract)]
    assert done.returncode != 0, done.stdout
    assert any(line.endswith("BROKEN") for line in verdicts), done.stdout + done.stderr


def test_every_pure_room_is_under_the_contract() -> None:
    held = {
        name
        for contract in CONTRACTS
        if contract["name"].startswith("Pure rooms")
        for name in contract["source_modules"]
    }
    rooms = {f"palestra.{room}" for room in PURE if (ROOT / "src" / "palestra" / room).is_dir()}
    assert rooms == held, "list each pure room that exists under source_modules in pyproject.toml"
