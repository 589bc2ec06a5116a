"""The manifest that seals a checkpoint: a folder's files in, `palestra.manifest.json` and its digest out."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palestra.client.errors import BadUsage, Refused

FILE_NAME = "palestra.manifest.json"
FORMAT = "palestra-manifest/1"
MOST_FILES = 200
NOMINABLE = (".safetensors", ".json", ".txt", ".model", ".jinja", ".md")
"""What a nomination may hold; anything else can be sealed, but not nominated."""
_UNFINISHED = FILE_NAME + ".tmp"


class Sealed(NamedTuple):
    """What a folder's manifest says, in figures."""

    digest: str
    files: int
    size: int
    """Bytes of all files together."""
    odd: list[str]
    """Files that a nomination can't hold."""


def seal_folder(folder: Path, *, step: int | None = None, parents: Sequence[str] = ()) -> Sealed:
    """Hash what is in the folder and write its manifest, last and in one step; `Refused` names what can't be sealed."""
    if not folder.is_dir():
        raise BadUsage(f"{str(folder)!r} is not a folder")
    (folder / _UNFINISHED).unlink(missing_ok=True)
    files = [_entry(folder, path) for path in _paths(folder)]
    if not 1 <= len(files) <= MOST_FILES:
        raise Refused(
            "not_sealable", f"{str(folder)!r} holds {len(files)} files; a checkpoint has 1 to {MOST_FILES}"
        )
    with (folder / _UNFINISHED).open("wb") as out:
        out.write(manifest_bytes(files, step, parents))
        out.flush()
        os.fsync(out.fileno())
    (folder / _UNFINISHED).replace(folder / FILE_NAME)
    odd = [file["path"] for file in files if not file["path"].endswith(NOMINABLE)]
    return Sealed(artifact_digest(files), len(files), sum(file["bytes"] for file in files), odd)


def manifest_bytes(files: list[dict[str, Any]], step: int | None, parents: Sequence[str]) -> bytes:
    """The file as written: canonical JSON and one line end."""
    facts = {"parents": list(parents), "step": step}
    return canonical({"facts": facts, "files": files, "format": FORMAT}) + b"\n"


def artifact_digest(files: list[dict[str, Any]]) -> str:
    """The identity of the weights, whatever the facts."""
    return "sha256:" + hashlib.sha256(canonical({"files": files, "format": FORMAT})).hexdigest()


def canonical(value: object) -> bytes:
    """JSON with one spelling: sorted keys, no spaces, UTF-8 as it is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def changes(folder: Path) -> list[str]:
    """Files whose name or size isn't what the folder's manifest says: a cheap look, not a check."""
    try:
        listed = {
            file["path"]: file["bytes"] for file in json.loads((folder / FILE_NAME).read_bytes())["files"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return [FILE_NAME]
    found = {path: (folder / path).lstat().st_size for path in _paths(folder)}
    return sorted(path for path in listed.keys() | found.keys() if listed.get(path) != found.get(path))


def _paths(folder: Path) -> list[str]:
    """All files below the folder but the manifest, by the bytes of their names."""
    found = [path.relative_to(folder).as_posix() for path in _walk(folder)]
    return sorted((name for name in found if name not in (FILE_NAME, _UNFINISHED)), key=os.fsencode)


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _entry(folder: Path, name: str) -> dict[str, Any]:
    """One file's line: checked, hashed, and the same before and after."""
    path = folder / name
    before = path.lstat()
    if not stat.S_ISREG(before.st_mode):
        raise Refused("not_sealable", f"{name!r} is not a regular file; a checkpoint has no links or devices")
    if before.st_nlink != 1:
        raise Refused(
            "not_sealable", f"{name!r} has {before.st_nlink} hard links; copy it instead of linking it"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise Refused("not_sealable", f"{name!r} is not UTF-8; rename it") from None
    if "\\" in name or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise Refused("not_sealable", f"{name!r} has a backslash or a control character; rename it")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    after = path.lstat()
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (
        after.st_size,
        after.st_mtime_ns,
        after.st_ino,
    ):
        raise Refused(
            "source_changed", f"{name!r} changed while it was hashed; seal when nothing writes to it any more"
        )
    return {"bytes": after.st_size, "path": name, "sha256": digest}
