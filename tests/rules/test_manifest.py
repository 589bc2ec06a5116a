"""Manifests of sealed checkpoints: hostile paths, order, and a digest that is the weights' own (F33, S37, S67)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.errors import BadInput
from palestra.rules.manifest import (
    MOST_FILES,
    artifact_digest,
    identity_bytes,
    manifest_bytes,
    read_identity,
    read_manifest,
)

HASH = "ab" * 32
PARENT = "sha256:" + "cd" * 32


def written(files: list[dict[str, Any]], facts: dict[str, Any] | None = None, **more: Any) -> bytes:
    """Canonical JSON as the arena's client writes it, made without Palestra."""
    body = {
        "facts": facts or {"parents": [], "step": None},
        "files": files,
        "format": "palestra-manifest/1",
        **more,
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def file(path: str, size: object = 3, sha256: str = HASH) -> dict[str, Any]:
    return {"bytes": size, "path": path, "sha256": sha256}


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "/etc/passwd", "../x", "a/../x", "a/./x", "a//x", "a/", "a\\x", "a\x00", "a\nx", "a\x7f", "a" * 256,
     "é" * 128, "palestra.manifest.json", "a/.."],
)  # fmt: skip
def test_f33_paths_that_leave_the_folder_or_hide_in_it_are_refused(path: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_manifest(written([file(path)]))
    assert "palestra.manifest.json" in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"\xff"',
        b"{}",
        written([file("a")])[:-20],
        written([]),
        written([file(f"f{n:03d}") for n in range(MOST_FILES + 1)]),
        written([file("b"), file("a")]),
        written([file("a"), file("a")]),
        written([file("a", -1)]),
        written([file("a", 1.5)]),
        written([file("a", True)]),
        written([file("a", "3")]),
        written([file("a", 3, "AB" * 32)]),
        written([file("a", 3, HASH + "00")]),
        written([file("a") | {"mode": 7}]),
        written([file("a")], {"parents": ["md5:00"], "step": 1}),
        written([file("a")], {"parents": [], "step": "last"}),
        written([file("a")], format="palestra-manifest/2"),
        written([file("a")], extra=1),
        b"[" * 100_000,
    ],
)
def test_what_is_not_a_manifest_is_refused_with_its_name(data: bytes) -> None:
    with pytest.raises(BadInput, match=r"palestra\.manifest\.json"):
        read_manifest(data)


def test_files_are_in_the_order_of_their_bytes() -> None:
    """U+FF21 sorts before U+1F600 in UTF-8 and after it in UTF-16."""
    names = ["B", "a", "a-b", "a/b", "ａ", "\U0001f600"]
    assert [entry.path for entry in read_manifest(written([file(name) for name in names])).files] == names
    with pytest.raises(BadInput, match="sorted by path"):
        read_manifest(written([file("\U0001f600"), file("ａ")]))


def test_s67_the_digest_is_the_weights_and_not_what_is_said_of_them() -> None:
    plain = read_manifest(written([file("a"), file("b", 5)]))
    told = read_manifest(written([file("a"), file("b", 5)], {"parents": [PARENT], "step": 100}))
    assert artifact_digest(plain) == artifact_digest(told)
    assert told.facts.step == 100
    assert plain.size == 8
    other = read_manifest(written([file("a"), file("b", 6)]))
    assert artifact_digest(other) != artifact_digest(plain)
    kept = read_identity(identity_bytes(told))
    assert (kept.files, kept.facts) == (told.files, plain.facts)
    assert artifact_digest(kept) == artifact_digest(told)


def test_the_digest_never_changes_between_releases() -> None:
    manifest = read_manifest(written([file("adapter_config.json", 123), file("é/ü.json", 0)]))
    assert (
        artifact_digest(manifest) == "sha256:50e66c25c9d74c8d0948ac98641271ab319c2f2f025de372dce9790dc0baf576"
    )


names = st.text(
    st.characters(exclude_characters="/\\", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20
).filter(lambda name: name not in (".", "..", "palestra.manifest.json"))


@given(st.sets(names, min_size=1, max_size=8), st.integers(0, 2**53), st.integers(0, 10**6) | st.none())
def test_reading_and_writing_agree_with_a_canonical_writer_of_another_make(
    paths: set[str], size: int, step: int | None
) -> None:
    files = [file(path, size) for path in sorted(paths, key=str.encode)]
    data = written(files, {"parents": [PARENT], "step": step})
    manifest = read_manifest(data)
    assert manifest_bytes(manifest) == data
    identity = json.dumps(
        {"files": files, "format": "palestra-manifest/1"},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    assert artifact_digest(manifest) == "sha256:" + hashlib.sha256(identity.encode()).hexdigest()


@given(st.binary(max_size=60))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with pytest.raises(BadInput):
        read_manifest(data)
