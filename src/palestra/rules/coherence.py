"""Whether the parts of a rules file agree with one another: the tables as read in, faults on the sheet out.

Every check looks only at values that could be read: what couldn't has its fault already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import msgspec

from palestra.rules.quantities import LONGEST
from palestra.rules.sheet import Sheet
from palestra.rules.times import show_utc
from palestra.rules.toml_lines import Path
from palestra.rules.units import show_hours, show_size

_PLACEHOLDER = re.compile(r"\{([A-Za-z_-]+)\}")
_FILLED = {
    "base": ({"base", "socket"}, {"socket"}),
    "adapter": ({"base", "model", "socket"}, {"model", "socket"}),
    "full": ({"base", "model", "socket"}, {"model", "socket"}),
}
"""For each argv of `[serving]`: the placeholders that are filled in, and those that must be there."""


class Part(msgspec.Struct, frozen=True):
    """One table of the file: where it stands, what is written in it, what could be understood of that."""

    path: Path
    raw: dict[str, Any]
    read: dict[str, Any]

    def at(self, key: str) -> Path:
        """The path of one of its keys."""
        return (*self.path, key)


Parts = dict[str, list[Part]]
"""The file's tables by name; of one that may stand only once, a list of one or, where it is missing, of none."""


def check(parts: Parts, sheet: Sheet, zones: frozenset[str]) -> None:
    """All checks, in the file's usual order."""
    for part in parts[""]:
        _known(sheet, part, "zone", zones, "a zone of the IANA table, for example Europe/Berlin or UTC")
    for part in parts["stages"]:
        _check_length(part, sheet)
    for table in ("data", "nodes", "upstreams", "models"):
        _check_unique(sheet, [part.at("name") for part in parts[table]])
    for part in parts["upstreams"]:
        _check_upstream(part, sheet)
    for part in parts["models"]:
        _check_model(part, parts["upstreams"], sheet)
    _check_unique(sheet, [part.at(key) for part in parts["entrants"] for key in ("name", "alias")])
    for part in parts["entrants"]:
        _check_entrant(part, parts["models"], sheet)
    for part in parts["jobs"]:
        _check_jobs(part, parts["nodes"], sheet)
    for part in parts["serving"]:
        _check_serving(part, parts["nodes"], sheet)


def nearest(word: str, words: Iterable[str], otherwise: str) -> str:
    """`did you mean X?`, or what else to say."""
    close = get_close_matches(word, sorted(words), n=1)
    return f"did you mean {close[0]}?" if close else otherwise


def _known(sheet: Sheet, part: Part, key: str, known: Iterable[str], otherwise: str) -> None:
    word = part.read.get(key)
    if word is not None and word not in known:
        sheet.fault(part.at(key), f"unknown; {nearest(word, known, otherwise)}")


def _names(parts: list[Part]) -> list[str]:
    """As written, so that a name with a fault of its own draws no second one."""
    return [part.raw["name"] for part in parts if isinstance(part.raw.get("name"), str)]


def _check_unique(sheet: Sheet, paths: list[Path]) -> None:
    first: dict[str, Path] = {}
    for path in paths:
        name = sheet.value(path)
        if isinstance(name, str) and (other := first.setdefault(name.casefold(), path)) is not path:
            if (
                other[:-1] == path[:-1]
            ):  # an alias in place of its own entrant's name: the text as it goes on the record
                continue
            sheet.fault(path, f"taken already, in line {sheet.line(other)}; names here must differ")


def _check_length(stages: Part, sheet: Sheet) -> None:
    """One end, however it is written: two that differ are refused, whichever was meant (S02)."""
    said = stages.read
    if "end" not in stages.raw:
        if "running" not in stages.raw:
            sheet.fault(
                stages.at("running"), 'missing; how long agents work, for example "144h"; or write end'
            )
        return
    if "start" not in said or "end" not in said:
        return
    if said["start"] is None:
        sheet.fault(stages.at("end"), 'with start = "at-run" no end is known yet: write running, a length')
        return
    length = said["end"] - said["start"]
    if not 0 < length <= LONGEST:
        sheet.fault(stages.at("end"), f"within 366 days after start, {show_utc(said['start'])}")
    elif "running" in said and length != said["running"]:
        sheet.fault(
            stages.at("end"),
            f"start and end are {_exact(length)} apart, but running says {_exact(said['running'])}, "
            f"which ends {show_utc(said['start'] + said['running'])}; leave one of them out",
        )


def _exact(span: int) -> str:
    seconds, micros = divmod(span, 1_000_000)
    text = show_hours(span, seconds=bool(seconds % 60 or micros))
    return f"{text}.{micros:06d} h" if micros else f"{text} h"


def _check_upstream(upstream: Part, sheet: Sheet) -> None:
    ways = [key for key in ("url", "playbooks") if key in upstream.raw]
    if len(ways) != 1:
        sheet.fault(upstream.path if not ways else upstream.at("playbooks"), "write one of url and playbooks")
    keys = [key for key in ("key_env", "key_file") if key in upstream.raw]
    if len(keys) == 2:
        sheet.fault(upstream.at("key_file"), "write one of key_env and key_file")
    elif keys and ways == ["playbooks"]:
        sheet.fault(upstream.at(keys[0]), "playbooks need no key; leave it out")


def _check_model(model: Part, upstreams: list[Part], sheet: Sheet) -> None:
    names = _names(upstreams)
    _known(sheet, model, "upstream", names, f"the [[upstreams]] are: {', '.join(names) or 'none yet'}")
    scripted = [part.raw.get("name") for part in upstreams if "playbooks" in part.raw]
    file = model.read.get("upstream_model", model.read.get("name", ""))
    if model.read.get("upstream") in scripted and "/" in file:
        key = "upstream_model" if "upstream_model" in model.raw else "name"
        sheet.fault(model.at(key), "with playbooks this names a file in their folder, without .toml and /")
    ceiling, floor = model.read.get("output_ceiling"), model.read.get("output_floor")
    if floor is not None and floor > (8_192 if ceiling is None else ceiling):
        sheet.fault(model.at("output_floor"), "at most output_ceiling")


def _check_entrant(entrant: Part, models: list[Part], sheet: Sheet) -> None:
    names = _names(models)
    listed = ", ".join(names) or "none yet"
    _known(sheet, entrant, "model", names, f"the [[models]] are: {listed}")
    house = entrant.raw.get("harness", "house") == "house"
    if house and "model" not in entrant.raw:
        sheet.fault(entrant.at("model"), f"missing; the house harness needs one of the [[models]]: {listed}")
    if house and "command" in entrant.raw:
        sheet.fault(entrant.at("command"), 'only for harness = "command"')
    if entrant.raw.get("harness") == "command" and "command" not in entrant.raw:
        sheet.fault(entrant.at("command"), 'missing; the program to run, for example ["python", "agent.py"]')


def _check_jobs(jobs: Part, nodes: list[Part], sheet: Sheet) -> None:
    read = [node.read for node in nodes if {"name", "gpus", "memory"} <= node.read.keys()]
    if not read or len(read) < len(nodes):
        return
    most, cap = max(read, key=lambda node: int(node["gpus"])), max(read, key=lambda node: int(node["memory"]))
    asked, memory = jobs.read.get("gpus_per_job"), jobs.read.get("memory_per_gpu")
    if asked is not None and asked > most["gpus"]:
        sheet.fault(
            jobs.at("gpus_per_job"), f"at most {most['gpus']}, as node {most['name']} has: no node has more"
        )
    if asked is not None and jobs.read.get("gpus_running", asked) < asked:
        sheet.fault(
            jobs.at("gpus_running"), f"at least gpus_per_job, {asked}, or the largest job never starts"
        )
    if memory is not None and memory > cap["memory"]:
        right = f"at most {show_size(cap['memory'])}, as node {cap['name']} has: no node has more"
        sheet.fault(jobs.at("memory_per_gpu"), right)


def _check_serving(serving: Part, nodes: list[Part], sheet: Sheet) -> None:
    for key, (known, needed) in _FILLED.items():
        argv = serving.read.get(key, ())
        listed = ", ".join(f"{{{name}}}" for name in sorted(known))
        used: set[str] = set()
        for index, word in enumerate(argv):
            used |= (names := set(_PLACEHOLDER.findall(word)))
            for name in names - known:
                sheet.fault((*serving.at(key), index), f"{{{name}}} isn't filled in here, only {listed} are")
        if argv and not needed <= used:
            missing = " and ".join(f"{{{name}}}" for name in sorted(needed - used))
            sheet.fault(serving.at(key), f"{missing} must stand in it")
    memory, gpus = serving.read.get("memory"), serving.read.get("gpus", 0)
    read = [node.read for node in nodes if {"gpus", "memory"} <= node.read.keys()]
    if memory is None or not read or len(read) < len(nodes):
        return
    if not any(node["memory"] >= memory and node["gpus"] >= gpus for node in read):
        largest = show_size(max(node["memory"] for node in read))
        sheet.fault(
            serving.at("memory"), f"no node has this and {gpus} GPUs; the most of a node is {largest}"
        )
