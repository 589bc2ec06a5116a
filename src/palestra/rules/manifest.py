"""The manifest that seals a checkpoint: bytes of `palestra.manifest.json` in, a checked struct and its digest out."""

from __future__ import annotations

import hashlib
import re

import msgspec

from palestra.rules.errors import BadInput
from palestra.rules.units import Digest

FILE_NAME = "palestra.manifest.json"
FORMAT = "palestra-manifest/1"
MOST_FILES = 200
_HEX = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ManifestFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file below the checkpoint's folder; fields in alphabetical order, as canonical JSON wants them."""

    bytes: int
    path: str
    sha256: str


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the maker says of a checkpoint; not part of its identity."""

    parents: tuple[Digest, ...] = ()
    step: int | None = None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sealed checkpoint: its files by digest, and what its maker says of it."""

    facts: Facts
    files: tuple[ManifestFile, ...]
    format: str

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.bytes for file in self.files)


class _Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: tuple[ManifestFile, ...]
    format: str


def read_manifest(data: bytes) -> Manifest:
    """Decode and check a manifest; `BadInput` names the file and what is wrong with it."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise BadInput(FILE_NAME, data[:80].decode("utf-8", "replace"), f"not a manifest: {error}") from None
    if manifest.format != FORMAT:
        raise BadInput(f"{FILE_NAME}: format", manifest.format, f"this release reads {FORMAT}")
    if not 1 <= len(manifest.files) <= MOST_FILES:
        raise BadInput(f"{FILE_NAME}: files", len(manifest.files), f"1 to {MOST_FILES} files")
    for file in manifest.files:
        _check_file(file)
    paths = [file.path.encode() for file in manifest.files]
    if paths != sorted(set(paths)):
        raise BadInput(f"{FILE_NAME}: files", "order", "sorted by path, each path once")
    if not all(_DIGEST.fullmatch(parent) for parent in manifest.facts.parents):
        raise BadInput(
            f"{FILE_NAME}: facts.parents", str(manifest.facts.parents), "digests like sha256:<64 hex>"
        )
    return manifest


def _check_file(file: ManifestFile) -> None:
    parts = file.path.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts)
    clean = "\\" not in file.path and all(ord(char) >= 32 and ord(char) != 127 for char in file.path)
    if not plain or not clean or file.path == FILE_NAME:
        raise BadInput(f"{FILE_NAME}: path", file.path, "a relative path inside the folder, without '..'")
    if file.bytes < 0 or not _HEX.fullmatch(file.sha256):
        raise BadInput(f"{FILE_NAME}: {file.path}", file.sha256, "bytes >= 0 and 64 hex digits of sha256")


def artifact_digest(manifest: Manifest) -> Digest:
    """The identity of the weights: sha256 over canonical JSON of format and files, whatever the facts."""
    return Digest("sha256:" + hashlib.sha256(identity_bytes(manifest)).hexdigest())


def identity_bytes(manifest: Manifest) -> bytes:
    """What the digest is taken over; kept as a blob, it is found by the artifact's own digest."""
    identity = {"files": [msgspec.to_builtins(file) for file in manifest.files], "format": manifest.format}
    return msgspec.json.encode(identity)


def read_identity(data: bytes) -> Manifest:
    """The manifest of an artifact from its identity bytes; the maker's facts are not in them."""
    found = msgspec.json.decode(data, type=_Identity)
    return Manifest(Facts(), found.files, found.format)


def manifest_bytes(manifest: Manifest) -> bytes:
    """The file as written: canonical JSON and one line end."""
    return msgspec.json.encode(manifest) + b"\n"
