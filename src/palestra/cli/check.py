"""`palestra check COMPETITION`: everything that is wrong or missing, at once, before anything is run."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from palestra.journal.filesystem import refuse_unfit
from palestra.rules.competition import Competition
from palestra.rules.errors import Broken
from palestra.runtime.opening import Source, missing_files, read_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("competition", type=Path, help="its folder, or its TOML file")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), help="where runs are to lie (default: runs)"
    )


def run(options: argparse.Namespace) -> int:
    """0 when a run could start now."""
    source = read_source(options.competition)
    faults = objections(source, options.runs)
    rules = source.rules
    print(f"{source.file}: {rules.title}, {len(rules.entrants)} entrants, {len(rules.nodes)} nodes")
    for name, what in guarantees(rules):
        print(f"  {name}: {what}")
    for step in rules.prepare:
        if not (source.folder / step.creates).exists():
            print(f"  will be prepared at the first run: {step.creates}")
    for fault in faults:
        print(f"  missing: {fault}")
    print("not ready" if faults else f"ready: palestra run {options.competition}")
    return 1 if faults else 0


def objections(source: Source, runs: Path) -> list[str]:
    """What would keep a run from starting."""
    faults = missing_files(source)
    for upstream in source.rules.upstreams:
        if upstream.key_env and not os.environ.get(upstream.key_env):
            faults.append(f"upstreams.{upstream.name}.key_env: the environment has no {upstream.key_env}")
        if upstream.key_file and not (source.folder / upstream.key_file).is_file():
            faults.append(
                f"upstreams.{upstream.name}.key_file: {source.folder / upstream.key_file} isn't there"
            )
    place = runs
    while not place.exists():
        place = place.parent
    try:
        refuse_unfit(place)
    except Broken as error:
        faults.append(str(error))
    return faults


def guarantees(rules: Competition) -> list[tuple[str, str]]:
    """What holds on this host, and what doesn't."""
    kinds = ", ".join(sorted({f"{node.gpu_kind}s" for node in rules.nodes}))
    return [
        ("isolation", "none: agents and jobs run as this user and can read what it can read"),
        ("killing", "process-tree: a process that clears its environment and daemonises escapes"),
        (
            "memory",
            "watched: a job over its reservation is killed within about a second, not at the first byte",
        ),
        (
            "GPUs",
            f"{kinds}; {'shared CPU time, nothing is bound' if 'slots' in kinds else 'advised by CUDA_VISIBLE_DEVICES, not bound'}",
        ),
        ("free disk", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB here"),
    ]
