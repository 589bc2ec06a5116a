"""`competition.toml` into rules: text in, a `Competition` out, or every fault at once with its line and what would be right.

The keys are the table in `keys.py`, their values are read by `values.py`, and `coherence.py` says how they must agree.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palestra.rules.coherence import Part, Parts, check, nearest
from palestra.rules.competition import Competition
from palestra.rules.errors import BadInput
from palestra.rules.keys import TABLES, Key, Table
from palestra.rules.prices import Price
from palestra.rules.sheet import BadCompetition, Fault, Sheet
from palestra.rules.toml_lines import Path

__all__ = ["BadCompetition", "Fault", "read_competition"]

_KEY_NAMES = ("key", "api_key", "apikey", "token", "secret", "password")


def read_competition(text: str, *, zones: frozenset[str], file: str = "competition.toml") -> Competition:
    """The rules that `text` writes down. `zones` are the IANA names this machine knows; `file` is named in faults."""
    sheet = Sheet(text, file)
    parts = {table.name: _read_table(table, sheet) for table in TABLES}
    check(parts, sheet, zones)
    sheet.finish()
    return _build(parts)


def _read_table(table: Table, sheet: Sheet) -> list[Part]:
    path: Path = (table.name,) if table.name else ()
    raw = sheet.value(path)
    if raw is None:
        if table.least:
            sheet.fault(path, f"missing; write {table.title}: {table.meaning}")
        return []
    if not table.many and not isinstance(raw, dict):
        sheet.fault(path, f"write it once, as a table: [{table.name}]")
        return []
    if table.many and not (isinstance(raw, list) and all(isinstance(part, dict) for part in raw)):
        sheet.fault(path, f"write it as a table that may be repeated: [[{table.name}]]")
        return []
    found = [Part(path, raw, {})]
    if table.many:
        found = [Part((*path, n), part, {}) for n, part in enumerate(raw)]
    if len(found) < table.least:
        sheet.fault(path, f"write at least {table.least} {table.title}")
    for part in found[table.most :]:
        sheet.fault(part.path, f"there can be at most {table.most} {table.title}")
    for part in found:
        _read_part(part, table, sheet)
    return found


def _read_part(part: Part, table: Table, sheet: Sheet) -> None:
    for key in table.keys:
        if key.name in part.raw:
            _read_key(part, key, sheet)
        elif not key.default:
            because = "no price, no call; " if key.kind.label.startswith("dollars per") else ""
            sheet.fault(part.at(key.name), f"missing; {because}write {key.kind.label}: {key.meaning}")
    known = {key.name for key in table.keys} | (set() if table.name else {other.name for other in TABLES})
    for name in part.raw.keys() - known:
        sheet.fault(part.at(name), _say_unknown(name, known, table))


def _read_key(part: Part, key: Key, sheet: Sheet) -> None:
    try:
        part.read[key.name] = key.kind.read(part.raw[key.name], key.name)
    except BadInput as error:
        sheet.fault(part.at(key.name), error.right)


def _say_unknown(name: str, known: set[str], table: Table) -> str:
    if name in _KEY_NAMES:
        return (
            "no keys in this file, which becomes part of the record that everyone may read; "
            "name an environment variable with key_env, or a file with key_file"
        )
    elsewhere = [other.title for other in TABLES if other.name and name in {key.name for key in other.keys}]
    hint = nearest(name, known, "")
    if not hint and elsewhere:
        hint = f"it belongs in {' or '.join(elsewhere)}"
    listed = ", ".join(key.name for key in table.keys)
    return f"unknown key; {hint or f'here may stand {listed}'}"


def _build(parts: Parts) -> Competition:
    """Everything was read and agrees: only what follows from the rest is filled in."""
    top, stages, jobs = parts[""][0].read, parts["stages"][0].read, parts["jobs"][0].read
    nodes = [node.read for node in parts["nodes"]]
    if "running" not in stages:
        stages = {**stages, "running": stages["end"] - stages["start"]}
    smallest = min(node["memory"] // node["gpus"] for node in nodes)
    whole = {
        "zone": "UTC",
        **top,
        **{table.name: _rows(parts, table) for table in TABLES if table.name},
        "stages": {key: value for key, value in stages.items() if key != "end"},
        "jobs": {"memory_per_gpu": smallest, **jobs},
        "models": [_with_price(model.read) for model in parts["models"]],
    }
    return msgspec.convert(whole, Competition)


def _rows(parts: Parts, table: Table) -> Any:
    rows = [part.read for part in parts[table.name]]
    return rows if table.many else rows[0]


def _with_price(model: dict[str, Any]) -> dict[str, Any]:
    price = {kind: model.get(kind, model["input"]) for kind in Price.__struct_fields__}
    rest = {key: value for key, value in model.items() if key not in price}
    if "output_ceiling" in rest:
        rest = {"output_floor": min(256, rest["output_ceiling"]), **rest}
    return {"upstream_model": model["name"], **rest, "price": price}
