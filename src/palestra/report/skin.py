"""How a report looks, handed in from outside: templates, style and fonts as values, so that rendering reads no file."""

from __future__ import annotations

import msgspec


class Template(msgspec.Struct, frozen=True):
    """One template by its name."""

    name: str
    text: str


class Font(msgspec.Struct, frozen=True):
    """A face; `data` is the woff2 file in base64, as it goes into the page."""

    family: str
    weights: str
    data: str


class Skin(msgspec.Struct, frozen=True):
    """Everything a page needs besides its figures. A skin of one's own may bring other templates and another style."""

    templates: tuple[Template, ...]
    css: str
    fonts: tuple[Font, ...] = ()
