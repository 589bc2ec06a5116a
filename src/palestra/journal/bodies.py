"""Bodies by digest: bytes or a file in, compressed bytes or a file under `blobs/` out, checked against the digest when read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

import zstandard

from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import MIB, Digest

LARGEST_INLINE = MIB
"""Bytes; a longer body is a file of its own, so that the record's database stays small and quick to copy."""
_CHUNK = MIB


def digest_of(body: bytes | Path) -> Digest:
    """`sha256:` and 64 hex digits of the content; `Broken` when the file can't be read."""
    if isinstance(body, bytes):
        return Digest(f"sha256:{hashlib.sha256(body).hexdigest()}")
    try:
        with body.open("rb") as file:
            return Digest(f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}")
    except OSError as error:
        raise Broken(f"{body}: can't be read: {error}") from error


def size_of(body: bytes | Path) -> int:
    """Bytes, before compression."""
    return len(body) if isinstance(body, bytes) else body.stat().st_size


def pack(body: bytes | Path) -> bytes:
    """A body compressed, to be kept inline."""
    return zstandard.ZstdCompressor().compress(body if isinstance(body, bytes) else body.read_bytes())


def unpack(packed: bytes, digest: Digest) -> bytes:
    """The body; `Corrupt` when it isn't what its digest says."""
    try:
        body = zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise Corrupt(f"blob {digest}: can't be unpacked: {error}") from error
    if digest_of(body) != digest:
        raise Corrupt(f"blob {digest}: the kept bytes have another digest, {digest_of(body)}")
    return body


class BodyFiles:
    """Long bodies, one compressed file each, under `blobs/` in the run folder; `zstd -d` reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, body: bytes | Path, digest: Digest) -> None:
        """Write the file and have it on the disk before the name exists."""
        path = self._path(digest)
        part = path.with_suffix(".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                found = _compress(body, file)
                file.flush()
                os.fsync(file.fileno())
            if found != digest:
                part.unlink()
                raise Broken(f"{body!r}: changed while it was being kept")
            part.replace(path)
            for folder in (path.parent, self._folder, self._folder.parent):
                _sync(folder)
        except OSError as error:
            raise Broken(f"{path}: a body can't be written: {error}") from error

    def open(self, digest: Digest) -> bytes:
        """The body; `Corrupt` when the file is gone or altered."""
        path = self._path(digest)
        try:
            return unpack(path.read_bytes(), digest)
        except FileNotFoundError as error:
            raise Corrupt(f"blob {digest}: its file {path} is gone, and it was never erased") from error
        except OSError as error:
            raise Broken(f"{path}: can't be read: {error}") from error

    def drop(self, digest: Digest) -> None:
        """Remove the file, if there is one."""
        path = self._path(digest)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Broken(f"{path}: can't be removed: {error.strerror}") from error

    def _path(self, digest: Digest) -> Path:
        name = digest.removeprefix("sha256:")
        return self._folder / name[:2] / f"{name}.zst"


def _compress(body: bytes | Path, target: BinaryIO) -> Digest:
    """Write the body compressed; the digest is of what was really read."""
    digest = hashlib.sha256()
    with zstandard.ZstdCompressor().stream_writer(target, size=size_of(body), closefd=False) as writer:
        if isinstance(body, bytes):
            digest.update(body)
            writer.write(body)
        else:
            with body.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    writer.write(chunk)
    return Digest(f"sha256:{digest.hexdigest()}")


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
