"""Sealing a checkpoint folder: the manifest's bytes, its digest, and what may not be in there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.running import kit

from palestra_kit.errors import KitError
from palestra_kit.seal import MANIFEST, seal, sealed_digest


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    (folder / "part").mkdir(parents=True)
    (folder / "config.json").write_bytes(b"{}")
    (folder / "part" / "a.safetensors").write_bytes(b"weights")
    (folder / "note-\u00e9.md").write_bytes(b"hello")
    return folder


def test_the_manifest_is_canonical_json_and_the_digest_follows_from_it(checkpoint: Path) -> None:
    digest = seal(checkpoint, ["sha256:" + "0" * 64], 100)
    names = ["config.json", "note-\u00e9.md", "part/a.safetensors"]
    files = ",".join(
        f'{{"bytes":{(checkpoint / name).stat().st_size},"path":"{name}",'
        f'"sha256":"{hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()}"}}'
        for name in names
    )
    facts = '{"parents":["sha256:' + "0" * 64 + '"],"step":100}'
    written = f'{{"facts":{facts},"files":[{files}],"format":"palestra-manifest/1"}}\n'
    assert (checkpoint / MANIFEST).read_bytes() == written.encode()
    identity = f'{{"files":[{files}],"format":"palestra-manifest/1"}}'
    assert digest == "sha256:" + hashlib.sha256(identity.encode()).hexdigest() == sealed_digest(checkpoint)


def test_the_arena_reads_what_is_sealed_here(checkpoint: Path) -> None:
    """The kit and the arena share no code, only the format."""
    from palestra.rules.manifest import artifact_digest, manifest_bytes, read_manifest

    digest = seal(checkpoint, [], 7)
    written = (checkpoint / MANIFEST).read_bytes()
    read = read_manifest(written)
    assert artifact_digest(read) == digest
    assert manifest_bytes(read) == written


def test_facts_are_no_part_of_the_identity_and_content_is(checkpoint: Path) -> None:
    first = seal(checkpoint, [], 1)
    assert seal(checkpoint, [first], 2) == first
    (checkpoint / "config.json").write_bytes(b"[]")
    assert seal(checkpoint, [], 1) != first


def test_f33_links_pipes_and_odd_names_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    """F33: nothing that leads out of the folder can be sealed."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    cases: dict[str, Callable[[Path], object]] = {
        "soft": lambda path: path.symlink_to(secret),
        "hard": lambda path: path.hardlink_to(secret),
        "pipe": lambda path: os.mkfifo(path),
        "new\nline.json": lambda path: path.write_text("x"),
        "back\\slash.json": lambda path: path.write_text("x"),
    }
    for name, plant in cases.items():
        plant(checkpoint / name)
        with pytest.raises(KitError, match=r"regular files only|hard links|control characters"):
            seal(checkpoint, [], None)
        (checkpoint / name).unlink()
    assert not (checkpoint / MANIFEST).exists()
    seal(checkpoint, [], None)


def test_an_empty_folder_and_too_many_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KitError, match="holds no files"):
        seal(tmp_path, [], None)
    for number in range(201):
        (tmp_path / f"{number}.json").write_text("{}")
    with pytest.raises(KitError, match="holds 201 files; a checkpoint has at most 200"):
        seal(tmp_path, [], None)


def test_the_command_prints_the_digest_and_warns_of_what_will_be_refused(checkpoint: Path) -> None:
    (checkpoint / "optimizer.pt").write_bytes(b"pickle")
    done = kit("seal", checkpoint, "--step", 12)
    assert done.stdout.strip() == sealed_digest(checkpoint)
    assert "optimizer.pt would be refused at a nomination" in done.stderr
    assert json.loads((checkpoint / MANIFEST).read_text())["facts"] == {"parents": [], "step": 12}
    assert "--parent is 'abc'" in kit("seal", checkpoint, "--parent", "abc", code=2).stderr
