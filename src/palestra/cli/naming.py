"""How this command was called, so that what it tells people to type works where they are."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def as_called() -> str:
    """`palestra` where that is found, else the path it was started by, such as `.venv/bin/palestra`."""
    called = Path(sys.argv[0])
    if called.name != "palestra":
        return "palestra"
    found = shutil.which("palestra")
    if found is not None and Path(found).resolve() == called.resolve():
        return "palestra"
    here = Path.cwd()
    place = called.absolute()
    return shlex.quote(str(place.relative_to(here) if place.is_relative_to(here) else place))
