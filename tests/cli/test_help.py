"""The command line itself: every verb and option says what it does, and help costs next to nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.terminal import ROOT, child, palestra

from palestra import __version__
from palestra.cli.main import VERBS, build_parser

HEAVY = {
    "msgspec", "starlette", "uvicorn", "aiohttp", "numpy", "sqlite3", "asyncio", "zstandard", "rich", "ssl", "socket",
    "subprocess", "http.client", "tomllib", "torch", "jinja2", "logging", "email", "hashlib", "palestra.ports",
}  # fmt: skip
"""What nobody who asks for help should wait for."""
NOT_VERBS = {"naming", "reference", "__init__", "main", "door"}


def parsers(
    parser: argparse.ArgumentParser, name: str = "palestra"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """This parser and all below it."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, one in action.choices.items():
                yield from parsers(one, f"{name} {verb}")


def test_every_verb_is_listed_and_every_module_is_a_verb() -> None:
    modules = {path.stem for path in (ROOT / "src/palestra/cli").glob("*.py")} - NOT_VERBS
    assert modules == set(VERBS)
    shown = palestra("--help").out
    for verb, meaning in VERBS.items():
        assert f"    {verb} " in shown, verb
        assert " ".join(meaning.split()[:4]) in " ".join(shown.split())


def test_every_verb_argument_and_option_says_what_it_is() -> None:
    seen = 0
    for name, parser in parsers(build_parser("*")):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for choice in action._choices_actions:
                    assert choice.help, f"{name} {choice.dest}"
                continue
            assert action.help and action.help != argparse.SUPPRESS, (
                f"{name}: {action.option_strings or action.dest}"
            )
            seen += 1
    assert seen > 25


@pytest.mark.parametrize("verb", VERBS)
def test_each_verbs_help_is_its_own(verb: str) -> None:
    said = palestra(verb, "--help")
    assert said.code == 0 and said.err == ""
    assert said.out.startswith(f"usage: palestra {verb} ")
    meaning = " ".join(VERBS[verb].split())
    assert (meaning[0].upper() + meaning[1:]) in " ".join(said.out.split())


def test_version_and_bad_usage() -> None:
    assert palestra("--version").out == f"palestra {__version__}\n"
    for words in ([], ["nonsense"], ["run", "--nonsense"], ["status"], ["new"], ["--nonsense"]):
        said = palestra(*words)
        assert said.code == 2 and "Traceback" not in said.err
        assert said.err.startswith("usage: palestra")


def test_help_loads_no_heavy_module(tmp_path: Path) -> None:
    """Asserted on what is loaded, as time says more about the machine; bench/startup.py has the figures."""
    code = (
        "import sys\nfrom palestra.cli.main import run\n"
        "try:\n    run(['--help'])\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )
    loaded = set(child("-c", code, cwd=tmp_path).err.split())
    assert "palestra.cli.main" in loaded
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("palestra")}
    assert ours == {
        "palestra",
        "palestra.cli",
        "palestra.cli.main",
        "palestra.rules",
        "palestra.rules.errors",
    }


@pytest.mark.parametrize("verb", ["status", "pause", "new"])
def test_a_verb_loads_no_server(verb: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom palestra.cli.main import build_parser\n"
        f"build_parser({verb!r})\nsys.stderr.write(' '.join(sys.modules))"
    )
    loaded = set(child("-c", code, cwd=tmp_path).err.split())
    assert not loaded & {"starlette", "uvicorn", "aiohttp", "numpy", "torch", "asyncio"}


def test_the_module_is_the_command(tmp_path: Path) -> None:
    said = child("-m", "palestra", "--version", cwd=tmp_path)
    assert (said.code, said.out, said.err) == (0, f"palestra {__version__}\n", "")
