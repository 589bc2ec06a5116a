"""Sizes, docstrings, words and locks: what the linters don't hold, read off the tracked files."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
NOT_OURS = {".git", ".venv", ".hypothesis", "__pycache__", "build", "dist", "runs"}
CUDA_OR_TORCH = re.compile(r"torch|triton|cuda-.*|nvidia-.*")

# Written in pieces, so that this file doesn't hold what it looks for.
FORBIDDEN = [
    *(re.compile(rf"\b{first}{rest}\b") for first, rest in (("TO", "DO"), ("FIX", "ME"))),
    *(
        re.compile(re.escape(".".join(host)), re.IGNORECASE)
        for host in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("deb", "debian", "org"),
            ("download", "pytorch", "org"),
            ("anaconda", "org"),
        )
    ),
    re.compile("file:///" + "opt|/opt/" + "pypi|/opt/" + "wheels"),
]


@functools.cache
def tracked() -> list[Path]:
    """The files of this tree: what git knows or would add, or simply all of them where there is no checkout."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
        return [path for name in names if name and (path := ROOT / name).is_file()]
    paths = (path for path in ROOT.rglob("*") if path.is_file())
    return [path for path in paths if NOT_OURS.isdisjoint(path.relative_to(ROOT).parts)]


def sources() -> list[Path]:
    found = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
    assert found, f"no source files under {ROOT / 'src'}"
    return found


def text_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def pins(lock: str) -> dict[str, set[str]]:
    """Package -> its `==version ; marker` lines; a package may have one for each Python."""
    found: dict[str, set[str]] = {}
    for line in text_lines(ROOT / "requirements" / lock):
        if line and not line.startswith(("#", " ")):
            name, _, pinned = line.rstrip("\\ ").partition("==")
            found.setdefault(name, set()).add(pinned)
    return found


def bare_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def test_no_source_file_is_too_long() -> None:
    sizes = {str(path.relative_to(ROOT)): len(text_lines(path)) for path in sources()}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno)
        - node.lineno
        + 1
        for path in sources()
        for node in functions(path)
    }
    assert {name: size for name, size in sizes.items() if size > MAX_FUNCTION_LINES} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in sources() if not ast.get_docstring(parsed(path))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_no_forbidden_words_and_no_registry_addresses() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        for number, line in enumerate(text_lines(path), start=1)
        if any(word.search(line) for word in FORBIDDEN)
    ]
    assert found == []


def test_the_entrants_client_needs_only_the_standard_library() -> None:
    foreign = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        if path.is_relative_to(ROOT / "src" / "palestra" / "client")
        for name in imported(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not (name + ".").startswith("palestra.client.")
    ]
    assert foreign == []


def test_locks_are_hashed_pins_without_addresses() -> None:
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    assert [lock.name for lock in locks] == ["dev.lock", "kit.lock", "smollm2.lock", "uv.lock"]
    form = re.compile(r"#.*|    --hash=sha256:[0-9a-f]{64}( \\)?|[a-z0-9.-]+==[^ /]+( ; [^/]+)? \\")
    for lock in locks:
        odd = [line for line in text_lines(lock) if "://" in line or not form.fullmatch(line)]
        assert odd == [], lock.name


def test_locks_hold_what_the_project_names_and_no_cuda() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    dev, kit = pins("dev.lock"), pins("kit.lock")
    needed = bare_names(project["project"]["dependencies"])
    assert (needed | bare_names(project["dependency-groups"]["dev"])) - dev.keys() == set()
    wanted = bare_names(project["project"]["optional-dependencies"]["kit"])
    assert (needed | wanted) - kit.keys() == {"torch"}
    assert [name for name in dev | kit if CUDA_OR_TORCH.fullmatch(name)] == []


def test_locks_agree_with_each_other() -> None:
    dev, kit = pins("dev.lock"), pins("kit.lock")
    assert {name: (dev[name], kit[name]) for name in dev.keys() & kit if dev[name] != kit[name]} == {}
