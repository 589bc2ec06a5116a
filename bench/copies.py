"""Copies with hash and check against `cp` and `sha256sum` of the same files: run by `./dev bench copies`.

Both read the same sealed folder of random shards and write it to the same disk, by turns. Ours reads each byte once, hashes
what it writes, compares with the manifest and has the disk keep it before it says so; theirs copies, has the disk keep it
(`sync`) and hashes the copy. The line below leaves the peer's `sync` out, which ours can't. Interpreter start is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from palestra.rules.manifest import FILE_NAME, Manifest, read_manifest
from palestra.vault.samples import seal
from palestra.vault.source import Source
from palestra.vault.staging import copy_file

PERFORMANCE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench copies: begin -->", "<!-- bench copies: end -->"
OURS, DURABLE, PLAIN = "palestra", "cp + sync + sha256sum", "cp + sha256sum"
GOAL = 0.8
SHARDS = 4


def copy_all(source: Path, goal: Path) -> None:
    """What a vault's child does between order and inspection."""
    manifest = read_manifest((source / FILE_NAME).read_bytes())
    goal.mkdir()
    with Source(source) as opened:
        for file in manifest.files:
            copy_file(opened, file, goal, lambda count: None)


def ours(source: Path, goal: Path, manifest: Manifest) -> None:
    subprocess.run([sys.executable, __file__, "--copy", source, goal], check=True)


def peer(source: Path, goal: Path, manifest: Manifest, *, durable: bool) -> None:
    subprocess.run(["cp", "-r", source, goal], check=True)
    files = [goal / file.path for file in manifest.files]
    if durable:
        subprocess.run(["sync", *files], check=True)
    told = subprocess.run(["sha256sum", *files], check=True, capture_output=True, text=True).stdout
    wanted = [file.sha256 for file in manifest.files]
    if [line.split()[0] for line in told.splitlines()] != wanted:
        raise SystemExit("sha256sum does not agree with the manifest")


def measure(what: Callable[[], None], goal: Path) -> tuple[float, float]:
    """Wall seconds and CPU seconds of the programs run. What is still to be written is written before the clock starts."""
    os.sync()
    before, start = os.times(), time.perf_counter()
    what()
    wall, after = time.perf_counter() - start, os.times()
    shutil.rmtree(goal)
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--size", type=int, default=512, metavar="MIB", help="of all files together (default 512)"
    )
    parser.add_argument("--dir", type=Path, help="where to work; the disk that is measured")
    parser.add_argument("--dry", action="store_true", help="leave docs/performance.md alone")
    parser.add_argument("--copy", type=Path, nargs=2, metavar=("FROM", "TO"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.copy:
        copy_all(*given.copy)
        return
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        times = run(Path(folder).absolute(), given.size << 20, given.rounds)
    table = tell(times, given.size << 20)
    print(table)
    if not given.dry:
        old = PERFORMANCE.read_text() if PERFORMANCE.exists() else ""
        PERFORMANCE.write_text(put_into(old, table))
    ours_taken = medians(times[OURS])[0]
    ratios = {f"speed of {name}": round(medians(times[name])[0] / ours_taken, 2) for name in (DURABLE, PLAIN)}
    goals = dict.fromkeys(ratios, GOAL)
    met = all(ratios[name] >= goals[name] for name in goals)
    print(json.dumps({"bench": "copies", "ratios": ratios, "goals": goals, "met": met}))


def run(place: Path, size: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    source, goal = place / "source", place / "goal"
    source.mkdir()
    for shard in range(SHARDS):
        (source / f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors").write_bytes(os.urandom(size // SHARDS))
    manifest = seal(source)
    candidates: dict[str, Callable[[], None]] = {
        OURS: lambda: ours(source, goal, manifest),
        DURABLE: lambda: peer(source, goal, manifest, durable=True),
        PLAIN: lambda: peer(source, goal, manifest, durable=False),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, candidate in candidates.items():
            taken = measure(candidate, goal)
            if turn:  # the first turn warms caches
                times[name].append(taken)
    return times


def tell(times: dict[str, list[tuple[float, float]]], size: int) -> str:
    """The table, in Markdown."""
    wall, spent = ({name: medians(values)[at] for name, values in times.items()} for at in (0, 1))
    lines = [
        f"{size >> 20} MiB in {SHARDS} files, medians of {len(times[OURS])} rounds, both with a warm cache.",
        "",
        "| what | wall s | CPU s | our speed against it | goal |",
        "|---|---|---|---|---|",
        f"| Palestra: copied, hashed, checked, on disk | {wall[OURS]:.2f} | {spent[OURS]:.2f} | | |",
    ]
    for name in (DURABLE, PLAIN):
        ratio = wall[name] / wall[OURS]
        lines.append(
            f"| `{name}` | {wall[name]:.2f} | {spent[name]:.2f} | {ratio:.2f}x | at least {GOAL:g}x |"
        )
    return "\n".join(lines)


def medians(values: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(one[0] for one in values), statistics.median(one[1] for one in values)


def put_into(text: str, section: str) -> str:
    """The page with the section of this measurement replaced, or added at its end."""
    marked = f"{BEGIN}\n## Copies\n\n{section}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    if not begin:
        return f"{text.rstrip() or '# Performance'}\n\n{marked}"
    return before + marked + rest.partition(END)[2].removeprefix("\n")


if __name__ == "__main__":
    main()
