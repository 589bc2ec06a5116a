"""`python -m palestra_kit.seal DIR`: seals a checkpoint folder by writing `palestra.manifest.json`, the list of its files with sizes and hashes.

The digest printed is the checkpoint's identity: same files, same digest. Anything changed afterwards breaks the seal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from palestra_kit.errors import KitError, exit_with

MANIFEST = "palestra.manifest.json"
FORMAT = "palestra-manifest/1"
MOST_FILES = 200
LONGEST_PART_BYTES = 255
NOMINABLE = (".safetensors", ".json", ".txt", ".model", ".jinja", ".md")


def seal(folder: Path, parents: Sequence[str], step: int | None) -> str:
    """Write the manifest by rename, last; returns the artifact digest."""
    files = [_entry(folder, path) for path in list_files(folder)]
    if not files:
        raise KitError(f"{folder} holds no files; there is nothing to seal")
    files.sort(key=lambda entry: str(entry["path"]).encode())
    manifest = {"facts": {"parents": list(parents), "step": step}, "files": files, "format": FORMAT}
    draft = folder / f".{MANIFEST}.draft"
    with draft.open("wb") as handle:
        handle.write(_canonical(manifest) + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(folder / MANIFEST)
    return _identity(files)


def sealed_digest(folder: Path) -> str | None:
    """The digest that the folder's manifest stands for; None when it is not sealed. The files themselves are not read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return _identity(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def digest_of(path: Path) -> str:
    """The identity of a file or a folder as it stands now, manifest aside."""
    if path.is_file():
        return "sha256:" + _hash(path)[0]
    return _identity(
        sorted(
            (_entry(path, file) for file in list_files(path)), key=lambda entry: str(entry["path"]).encode()
        )
    )


def list_files(folder: Path) -> list[Path]:
    """Every file below the folder but the manifest. KitError for a link, a device, a name that can't travel, or too many files."""
    if not folder.is_dir() or folder.is_symlink():
        raise KitError(f"{folder} is not a folder")
    found = [
        path
        for path in _walk(folder)
        if path.relative_to(folder).as_posix() not in (MANIFEST, f".{MANIFEST}.draft")
    ]
    if len(found) > MOST_FILES:
        raise KitError(f"{folder} holds {len(found)} files; a checkpoint has at most {MOST_FILES}")
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        facts = path.lstat()
        if re.search(r"[\x00-\x1f\x7f\\]", path.name) or len(os.fsencode(path.name)) > LONGEST_PART_BYTES:
            raise KitError(
                f"{str(path)!r}: a name may not hold control characters or backslashes, nor pass {LONGEST_PART_BYTES} bytes"
            )
        if not _is_utf8(path.name):
            raise KitError(f"{str(path)!r}: the name is not UTF-8")
        if stat.S_ISDIR(facts.st_mode):
            yield from _walk(path)
        elif not stat.S_ISREG(facts.st_mode):
            raise KitError(f"{path} is a link, a pipe or a device; a checkpoint holds regular files only")
        elif facts.st_nlink != 1:
            raise KitError(f"{path} has {facts.st_nlink} names (hard links); copy the file instead")
        else:
            yield path


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    digest, size = _hash(path)
    return {"bytes": size, "path": path.relative_to(folder).as_posix(), "sha256": digest}


def _hash(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file; KitError when it changes while it is read."""
    try:
        with path.open("rb") as handle:
            before = os.fstat(handle.fileno())
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
            after = os.fstat(handle.fileno())
    except OSError as error:
        raise KitError(f"{path} cannot be read: {error}") from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise KitError(f"{path} changed while it was read; wait until nothing writes to it, then seal again")
    return digest, after.st_size


def _identity(files: list[dict[str, Any]]) -> str:
    return "sha256:" + hashlib.sha256(_canonical({"files": files, "format": FORMAT})).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m palestra_kit.seal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--parent",
        action="append",
        default=[],
        metavar="DIGEST",
        help="a checkpoint this one came from; repeat for several",
    )
    parser.add_argument("--step", type=int, help="the training step the weights are of")
    given = parser.parse_args()
    for parent in given.parent:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", parent):
            raise KitError(f"--parent is {parent!r}; it must be sha256: and 64 hexadecimal digits")
    if given.step is not None and given.step < 0:
        raise KitError(f"--step is {given.step}; it must be 0 or more")
    digest = seal(given.folder, given.parent, given.step)
    for path in list_files(given.folder):
        if path.suffix not in NOMINABLE:
            print(
                f"warning: {path} would be refused at a nomination; allowed are: {' '.join(NOMINABLE)}",
                file=sys.stderr,
            )
    print(digest)


if __name__ == "__main__":
    exit_with(main)
