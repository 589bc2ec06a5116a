"""Writes a report from a run's folder alone: journal in, checked row by row; one HTML file and its key findings out."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import msgspec

from palestra.events.codec import read_entry
from palestra.events.runs import RunOpened
from palestra.journal.chain import check_chain
from palestra.journal.tail import Tail
from palestra.report.day import compose
from palestra.report.facts import Facts
from palestra.report.gather import gather
from palestra.report.render import render
from palestra.report.window import Asked
from palestra.rules.errors import BadInput
from palestra.runtime.folder import RunFolder
from palestra.runtime.skins import load_skin, load_zone
from palestra.runtime.withheld import withheld


def read_facts(folder: RunFolder, asked: Asked) -> Facts:
    """The figures of a window. `Corrupt` where the chain breaks: a report says only what the record bears out."""
    file = folder.read()
    tail = Tail(folder.path)
    try:
        rows = check_chain(tail.rows(), file.run)
        first = next(rows, None)
        opened = read_entry(first).event if first is not None else None
        if first is None or not isinstance(opened, RunOpened):
            raise BadInput("run", str(folder.path), "its journal has no rows yet")
        stages = opened.rules.stages
        whole = stages.running + stages.closing + stages.judging
        zone = load_zone(opened.rules.zone, opened.start, opened.start + whole)
        return gather(chain([first], rows), asked, zone, withheld(folder, opened.rules))
    finally:
        tail.close()


def write_report(folder: RunFolder, asked: Asked | None = None, out: Path | None = None) -> Path:
    """The report of a window, by default of the whole run, in `reports/` or where `out` says; gives back where it is."""
    return write_page(folder, read_facts(folder, asked or Asked()), out)


def write_page(folder: RunFolder, facts: Facts, out: Path | None = None) -> Path:
    """The page of these facts, put in place in one step."""
    html = render(compose(facts), load_skin())
    path = out if out is not None else folder.reports / f"{facts.window.slug}.html"
    if not path.parent.is_dir():
        raise BadInput("--out", str(path), f"a file in a folder that is there; {path.parent} isn't")
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(html, encoding="utf-8", errors="backslashreplace")
    draft.replace(path)
    return path


def findings_json(facts: Facts) -> bytes:
    """Every finding as a line of JSON: its figures with units, and the rows that they come from."""
    from palestra.report.detectors import detect

    return b"".join(msgspec.json.encode(one) + b"\n" for one in detect(facts))
