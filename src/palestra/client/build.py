"""Builds the `arena` command: this folder's source in, one executable zip file out, the same bytes every time.

python -m palestra.client.build OUT
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = b'''"""Starts `arena`."""
import sys

if sys.version_info < (3, 11):
    sys.stderr.write("arena: needs Python 3.11 or later; this is %d.%d (%s)\\n" % (*sys.version_info[:2], sys.executable))
    sys.exit(2)

from palestra.client.arena import entry

entry()
'''
PACKAGE = b'"""The entrant\'s part of Palestra."""\n'


def build(out: Path) -> Path:
    """Write the zipapp to `out`, in one step, and return it."""
    folder = Path(__file__).resolve().parent
    sources = {
        f"palestra/client/{path.name}": path.read_bytes()
        for path in folder.glob("*.py")
        if path.name != "build.py"
    }
    parts = {"__main__.py": MAIN, "palestra/__init__.py": PACKAGE, **sources}
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    with unfinished.open("wb") as file:
        file.write(SHEBANG)
        # Stored, not deflated: compressed bytes differ between builds of zlib.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(parts):
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                archive.writestr(entry, parts[name])
    unfinished.chmod(0o755)
    return unfinished.replace(out)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: python -m palestra.client.build OUT", file=sys.stderr)
        return 2
    try:
        print(build(Path(sys.argv[1])))
    except OSError as error:
        print(f"can't write {sys.argv[1]}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
