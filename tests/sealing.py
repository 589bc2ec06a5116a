"""Seals off the world: while sealed, this thread may not open, import, start or connect anything. For the pure rooms' tests.

The hook can't be removed once added, so it is added once and bites only inside `sealed()`. It doesn't see clocks being read;
the import contracts keep those out.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

REFUSED = (
    "open", "import", "os.", "subprocess.", "socket.", "sqlite3.", "shutil.", "tempfile.", "glob.", "pathlib.", "urllib.",
    "http.", "ctypes.", "time.sleep", "winreg.",
)  # fmt: skip
"""Audit events, those with a dot by their beginning."""

_here = threading.local()


class Reached(AssertionError):
    """The pure core reached for the world."""


def _hook(event: str, args: tuple[object, ...]) -> None:
    if not getattr(_here, "sealed", False):
        return
    if any(event == word or (word.endswith(".") and event.startswith(word)) for word in REFUSED):
        _here.sealed = False  # telling of it needs files and imports
        raise Reached(f"{event} {args!r}")


sys.addaudithook(_hook)


@contextmanager
def sealed() -> Iterator[None]:
    """Nothing outside can be reached from here to the end of the block."""
    before = getattr(_here, "sealed", False)
    _here.sealed = True
    try:
        yield
    finally:
        _here.sealed = before
