"""`palestra check COMPETITION`: everything that is wrong or missing, at once, before anything is run."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sized
from pathlib import Path

from palestra.agents.seat import SYSTEM_PATH
from palestra.cli.naming import as_called
from palestra.cluster.shim import missing_tools
from palestra.gateway.playbook import read_playbook
from palestra.journal.filesystem import refuse_unfit
from palestra.rules.competition import Competition
from palestra.rules.errors import BadInput, Broken
from palestra.runtime.folder import check_temporary_root
from palestra.runtime.keys import read_key
from palestra.runtime.opening import Source, missing_files, read_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own options."""
    parser.add_argument("competition", type=Path, help="the competition's folder, or its TOML file")
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), help="where runs are to lie (default: runs)"
    )


def run(options: argparse.Namespace) -> int:
    """0 when a run could start now."""
    source = read_source(options.competition)
    faults = objections(source, options.runs)
    rules = source.rules
    print(f"{source.file}: {rules.title}, {_count(rules.entrants, 'entrant')}, {_count(rules.nodes, 'node')}")
    for name, what in guarantees(rules):
        print(f"  {name}: {what}")
    for step in rules.prepare:
        if not (source.folder / step.creates).exists():
            print(f"  will be prepared at the first run: {step.creates}")
    for fault in faults:
        print(f"  wrong: {fault}")
    print("not ready" if faults else f"ready: {as_called()} run {options.competition}")
    return 1 if faults else 0


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}" + ("" if len(things) == 1 else "s")


def objections(source: Source, runs: Path) -> list[str]:
    """What would keep a run from starting."""
    faults = missing_files(source)
    for upstream in source.rules.upstreams:
        try:
            read_key(upstream, source.folder)
        except Broken as error:
            faults.append(str(error))
    faults += [f"the shim needs {tool}, which isn't on this machine's path" for tool in missing_tools()]
    return faults + _silent_models(source) + _absent_programs(source.rules) + _unfit(runs)


def _silent_models(source: Source) -> list[str]:
    """Models whose playbook is missing or can't be read."""
    faults = []
    played = {one.name: source.folder / one.playbooks for one in source.rules.upstreams if one.playbooks}
    for model in source.rules.models:
        folder = played.get(model.upstream)
        if folder is None or not folder.is_dir():
            continue
        path = folder / f"{model.upstream_model}.toml"
        try:
            if path.exists():
                read_playbook(path)
            else:
                faults.append(f"models.{model.name}: its playbook {path} isn't there")
        except BadInput as error:
            faults.append(str(error))
    return faults


def _absent_programs(rules: Competition) -> list[str]:
    """Programs that agents are to run, as they would be found."""
    first = rules.jobs.environment
    faults = [] if not first or Path(first).is_dir() else [f"jobs.environment: {first} isn't a folder"]
    path = os.pathsep.join((first or str(Path(sys.executable).parent), *SYSTEM_PATH))
    return faults + [
        f"entrants.{one.alias or one.name}.command: there is no program {one.command[0]!r} on agents' PATH"
        for one in rules.entrants
        if one.command and "/" not in one.command[0] and not shutil.which(one.command[0], path=path)
    ]


def _unfit(runs: Path) -> list[str]:
    """Why runs can't lie there, or have no place for their sockets."""
    place = runs
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return [f"runs: {place} isn't a folder"]
    faults = (
        [] if os.access(place, os.W_OK | os.X_OK) else [f"runs: nothing can be written in {place.absolute()}"]
    )
    try:
        refuse_unfit(place)
    except Broken as error:
        faults.append(f"runs: {error}")
    try:
        check_temporary_root()
    except Broken as error:
        faults.append(f"sockets: {error}")
    return faults


def guarantees(rules: Competition) -> list[tuple[str, str]]:
    """What holds on this host, and what doesn't."""
    kinds = ", ".join(sorted({f"{node.gpu_kind}s" for node in rules.nodes}))
    return [
        ("isolation", "none: agents and jobs run as this user and can read what it can read"),
        (
            "killing",
            "process-tree: whole, also detached ones; only one that detaches, clears its environment and outlives a killed shim escapes",
        ),
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
