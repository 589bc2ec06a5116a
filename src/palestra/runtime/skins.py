"""Reads how reports look from the package's own files: templates, style, fonts and a zone's changes in, a skin out."""

from __future__ import annotations

import base64
from datetime import timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

from palestra.report.skin import Font, Skin, Template
from palestra.report.zone import Change, Zone
from palestra.rules.times import EPOCH
from palestra.rules.units import DAY, SECOND, Moment

_REPORT = files("palestra") / "report" / "static"
_WEB = files("palestra") / "web" / "static"
FACES = (("Inter", "100 900", "inter.woff2"), ("Newsreader", "200 800", "newsreader.woff2"))
"""Both under the SIL Open Font License; its text lies beside the files."""
AROUND = 31
"""Days before and after a report's window for which a zone's changes are looked up."""


def load_skin(*, fonts: bool = True) -> Skin:
    """The look that ships. Without fonts a page is a third the size and uses the reader's own."""
    css = [_WEB / "tokens.css", _WEB / "page.css", _REPORT / "report.css"]
    return Skin(
        templates=tuple(
            Template(name, (_REPORT / name).read_text(encoding="utf-8"))
            for name in ("report.html", "parts.html")
        ),
        css="\n".join(path.read_text(encoding="utf-8") for path in css),
        fonts=tuple(
            Font(family, weights, base64.b64encode((_WEB / "fonts" / name).read_bytes()).decode())
            for family, weights, name in (FACES if fonts else ())
        ),
    )


def load_zone(name: str, since: int, until: int) -> Zone:
    """The changes of one IANA zone from a month before `since` to a month after `until`, to the second."""
    there = ZoneInfo(name)
    days = range(since - AROUND * DAY, until + (AROUND + 1) * DAY, DAY)
    changes = [_change(there, days[0])]
    for before, after in pairwise(days):
        if _change(there, after)[1:] == changes[-1][1:]:
            continue
        while after - before > SECOND:
            middle = (before + after) // 2
            if _change(there, middle)[1:] == changes[-1][1:]:
                before = middle
            else:
                after = middle
        changes.append(_change(there, after // SECOND * SECOND))
    return Zone(name, tuple(Change(Moment(at), ahead, short) for at, ahead, short in changes))


def _change(zone: ZoneInfo, at: int) -> tuple[int, int, str]:
    local = (EPOCH + timedelta(microseconds=at)).astimezone(zone)
    ahead = local.utcoffset()
    return at, int(ahead.total_seconds()) if ahead is not None else 0, local.tzname() or "UTC"
