"""How pages look: templates that escape everything, and static files with their types, loaded once."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined

from palestra.rules.units import show_t

_WEB = files("palestra.web")
TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "woff2": "font/woff2",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class StaticFile(msgspec.Struct, frozen=True):
    """Bytes as they are sent."""

    data: bytes
    media_type: str
    mark: str
    """Of its content: a link with it may be kept for ever."""


def load_static() -> dict[str, StaticFile]:
    """Every file below `static/`, by its path there."""
    found: dict[str, StaticFile] = {}
    _collect(_WEB / "static", "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, StaticFile]) -> None:
    for one in folder.iterdir():
        if one.is_dir():
            _collect(one, f"{prefix}{one.name}/", found)
        elif (media_type := TYPES.get(one.name.rpartition(".")[2])) is not None:
            data = one.read_bytes()
            found[prefix + one.name] = StaticFile(data, media_type, hashlib.sha256(data).hexdigest()[:10])


def load_templates(static: dict[str, StaticFile]) -> Environment:
    """Autoescape is on for all of them; what isn't defined is an error, not a blank."""
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["ago"] = lambda head, at: show_t(at, head.start * 1000, seconds=head.seconds)
    environment.globals["asset"] = lambda name: f"/static/{name}?v={static[name].mark}"
    return environment


def _read(name: str) -> str | None:
    path = _WEB / "templates" / name
    return path.read_text(encoding="utf-8") if path.is_file() else None
