"""A page as one self-contained file: a page's structs and a skin in, HTML out. Everything that is shown is escaped."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from palestra.report.day import Page
from palestra.report.skin import Skin, Template

MAIN = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'"
"""No script, no picture, no address outside: whatever an agent wrote can only be read."""


def render(page: Page, skin: Skin) -> str:
    """The whole report. The same page and skin give the same bytes."""
    style = Markup("{}\n{}").format(_faces(skin), Markup(skin.css))  # noqa: S704  our own files, not anyone's words
    main = _templates(skin.templates).get_template(MAIN)
    return main.render(page=page, facts=page.facts, style=style, policy=POLICY)


@lru_cache(maxsize=4)
def _templates(templates: tuple[Template, ...]) -> Environment:
    """Compiled once for all reports of a process; everything is escaped, what isn't defined is an error."""
    return Environment(
        loader=DictLoader({one.name: one.text for one in templates}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _faces(skin: Skin) -> Markup:
    faces = [
        Markup(
            "@font-face{{font-family:{};font-weight:{};font-display:swap;"
            "src:url(data:font/woff2;base64,{}) format('woff2')}}"
        ).format(font.family, font.weights, font.data)
        for font in skin.fonts
    ]
    return Markup("\n").join(faces)
