"""The client's manifest agrees with the arena's, byte for byte, and what can't be sealed is refused by name."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.client import manifest
from palestra.client.errors import ArenaError, Refused
from palestra.rules import manifest as agreed
from palestra.rules.units import Digest

PART = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=40)
    .filter(lambda part: part not in (".", "..", manifest.FILE_NAME, manifest.FILE_NAME + ".tmp"))
    .filter(lambda part: len(part.encode()) <= 255)
)
DIGEST = st.binary(min_size=32, max_size=32).map(lambda digest: "sha256:" + digest.hex())


@given(
    files=st.dictionaries(
        st.lists(PART, min_size=1, max_size=3).map("/".join), st.binary(max_size=50), min_size=1, max_size=6
    ),
    step=st.none() | st.integers(0, 2**53),
    parents=st.lists(DIGEST, max_size=3),
)
def test_both_manifests_agree_byte_for_byte(
    files: dict[str, bytes], step: int | None, parents: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kept = {}
        for name, data in files.items():
            try:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # one name is a folder of another
            kept[name] = data
        sealed = manifest.seal_folder(folder, step=step, parents=parents)
        written = (folder / manifest.FILE_NAME).read_bytes()
        read = agreed.read_manifest(written)
        assert agreed.manifest_bytes(read) == written
        assert agreed.artifact_digest(read) == sealed.digest
        assert {file.path: file.bytes for file in read.files} == {
            name: len(data) for name, data in kept.items()
        }
        assert (read.facts.step, read.facts.parents) == (step, tuple(Digest(parent) for parent in parents))
        assert (sealed.files, sealed.size) == (len(kept), read.size)
        assert manifest.changes(folder) == []


def test_the_same_weights_have_the_same_digest_whatever_is_said_of_them(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = manifest.seal_folder(tmp_path, step=1)
    again = manifest.seal_folder(tmp_path, step=2, parents=["sha256:" + "0" * 64])
    assert first == again
    assert manifest.FORMAT == agreed.FORMAT
    assert (manifest.FILE_NAME, manifest.MOST_FILES) == (agreed.FILE_NAME, agreed.MOST_FILES)


def plant_symlink(folder: Path) -> None:
    (folder / "weights").symlink_to("/etc/passwd")


def plant_linked_folder(folder: Path) -> None:
    (folder / "weights").symlink_to("/usr")


def plant_hard_link(folder: Path) -> None:
    (folder / "one").write_bytes(b"x")
    (folder / "weights").hardlink_to(folder / "one")


def plant_fifo(folder: Path) -> None:
    os.mkfifo(folder / "weights")


def plant_control(folder: Path) -> None:
    (folder / "weights\n").write_bytes(b"x")


def plant_bytes(folder: Path) -> None:
    (folder / os.fsdecode(b"weights\xff")).write_bytes(b"x")


def plant_many(folder: Path) -> None:
    for n in range(manifest.MOST_FILES + 1):
        (folder / str(n)).write_bytes(b"x")


def plant_nothing(folder: Path) -> None:
    """An empty folder is no checkpoint."""


PLANTS = [
    plant_symlink, plant_linked_folder, plant_hard_link, plant_fifo, plant_control, plant_bytes, plant_many, plant_nothing,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_what_cant_be_sealed_is_refused_and_leaves_nothing_behind(tmp_path: Path, plant: object) -> None:
    assert callable(plant)
    plant(tmp_path)
    with pytest.raises(Refused) as refused:
        manifest.seal_folder(tmp_path)
    assert refused.value.code == "not_sealable"
    str(refused.value).encode()  # fit to be printed
    assert list(tmp_path.glob("palestra*")) == []


def test_a_half_written_manifest_of_a_killed_seal_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "palestra.manifest.json.tmp").write_bytes(b"{")
    assert manifest.seal_folder(tmp_path).files == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "palestra.manifest.json"]


def test_changes_since_the_seal_are_named(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.json"):
        (tmp_path / name).write_bytes(b"x")
    manifest.seal_folder(tmp_path)
    (tmp_path / "a.json").write_bytes(b"longer")
    (tmp_path / "b.json").unlink()
    (tmp_path / "d.json").write_bytes(b"x")
    assert manifest.changes(tmp_path) == ["a.json", "b.json", "d.json"]
    (tmp_path / manifest.FILE_NAME).write_bytes(b"[]")
    assert manifest.changes(tmp_path) == [manifest.FILE_NAME]


def test_a_folder_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(ArenaError, match="not a folder"):
        manifest.seal_folder(tmp_path / "nowhere")
