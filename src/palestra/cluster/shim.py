"""Starts one process through shim.sh: what is to run goes into a folder, the shim takes it from there.

The folder's files are the only link between server and shim, so either may die without the other noticing.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

from palestra.ports import Process
from palestra.rules.errors import BadInput, Broken

UNIT = "PALESTRA_UNIT"
"""The variable by which every process of a tree is known."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the shim looks for its own tools, whatever PATH its command is given."""
TOOLS = ("awk", "date", "env", "grep", "ln", "mv", "setsid", "sleep")
TICK = 10_000
"""Microseconds in the shim's unit of time, a hundredth of a second: the resolution of /proc/uptime."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PREFIX = re.compile(r"[A-Za-z0-9._:/-]{0,400}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = frozenset(
    {
        "_",
        "BASHOPTS",
        "BASH_VERSINFO",
        "EUID",
        "IFS",
        "LINENO",
        "OPTARG",
        "OPTIND",
        "PPID",
        "SHELLOPTS",
        "SHLVL",
        "UID",
    }
)
"""Names that some shell keeps for itself or won't export as given."""
_ADDED = ("PWD", "OLDPWD", "SHLVL", "_")
"""What shells add to an environment."""


def missing_tools() -> list[str]:
    """The programs that the shim needs and this host lacks."""
    return [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]


def check_key(key: str) -> None:
    """A key names a folder, so it must be a plain name."""
    if not _KEY.fullmatch(key):
        raise BadInput(
            "key",
            key,
            "a key is 1 to 100 letters, digits, dots, dashes or underscores, and starts with a letter or digit",
        )


def check_prefix(prefix: str) -> None:
    """What a unit begins with is searched for in environments, so it must be one plain word."""
    if not _PREFIX.fullmatch(prefix):
        raise BadInput("unit_prefix", prefix, "at most 400 letters, digits and any of . _ : / -")


def prepare(folder: Path, process: Process, unit: str) -> None:
    """Write into `folder` what the shim is to run. The environment may hold secrets, so it is for our eyes only."""
    _check(process)
    env = dict(process.env)
    env[UNIT] = unit
    awkward = [name for name in env if not _NAME.fullmatch(name) or name in _SHELLS_OWN]
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in env.items() if name not in awkward]
    exact = ["exec", "env"]
    for name in _ADDED:
        exact += ["-u", name] if name not in env else []
    if "PWD" in env:
        awkward.append("PWD")  # changing folder set it anew
    exact += [shlex.quote(f"{name}={env[name]}") for name in awkward]
    command = (
        "echo $$ >child\n"
        ". ./env\n"
        f"cd -- {shlex.quote(process.cwd)} || exit 126\n"
        f"{' '.join(exact)} {' '.join(shlex.quote(word) for word in process.argv)}\n"
    )
    limit = -(-process.limit // TICK) if process.limit is not None else 0
    grace = -(-process.grace // TICK)
    _write(folder / "env", "".join(exports))
    _write(folder / "command", command)
    _write(folder / "limits", f"{limit} {grace} {unit}\n")


def launch(folder: Path, shell: str) -> None:
    """Start a shim for `folder`; returns when it is on its own. Starting a second one is harmless: only one goes on."""
    here = resources.files("palestra.cluster")
    argv = [sys.executable, "-I", "-S", str(here / "detach.py"), shell, str(here / "shim.sh"), str(folder)]
    try:
        done = subprocess.run(
            argv,
            env={"PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise Broken(f"can't start a process for {folder.name}: {error}") from error
    if done.returncode != 0:
        raise Broken(
            f"can't start a process for {folder.name}: {' '.join(argv)} ended with {done.returncode}"
        )


def _check(process: Process) -> None:
    if not process.argv or not process.argv[0]:
        raise BadInput("argv", process.argv, "the first word names the program to run")
    if process.argv[0].startswith("-") or "=" in process.argv[0]:
        raise BadInput(
            "argv", process.argv[0], "a program's name neither starts with a dash nor holds an equals sign"
        )
    if not process.cwd.startswith("/"):
        raise BadInput("cwd", process.cwd, "an absolute path is needed")
    if process.limit is not None and process.limit <= 0:
        raise BadInput("limit", process.limit, "a time limit is more than zero")
    if process.grace < 0:
        raise BadInput("grace", process.grace, "a grace is not negative")
    for name, value in process.env:
        if not name or "=" in name:
            raise BadInput("env", name, "a variable's name is not empty and holds no equals sign")
        if "\0" in name + value:
            raise BadInput("env", name, "no variable can hold a zero byte")
    for word in (*process.argv, process.cwd):
        if "\0" in word:
            raise BadInput("argv", word, "no argument or path can hold a zero byte")


def _write(path: Path, text: str) -> None:
    with path.open("xb") as file:
        path.chmod(0o600)
        file.write(text.encode("utf-8", "surrogateescape"))
