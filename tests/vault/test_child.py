"""One copy from order to kept folder, run in this process; the process around it is tested with the folder vault."""

import json
from pathlib import Path

import msgspec
import pytest

from palestra.ports import CopyResult
from palestra.rules.errors import BadInput, Refusal
from palestra.rules.manifest import FILE_NAME, Manifest, artifact_digest, read_manifest
from palestra.rules.units import Bytes
from palestra.vault import codes, staging
from palestra.vault.child import Copy
from palestra.vault.order import FILES, Order, kept_folder, read_kept
from palestra.vault.samples import (
    llama_config,
    llama_tensors,
    lora_config,
    lora_tensors,
    seal,
    trained,
    write_adapter,
    write_model,
)

CONFIG = llama_config()
TENSORS = llama_tensors(CONFIG)


class Place:
    """A vault's folder and a base; copies are made here, in this process."""

    def __init__(self, root: Path) -> None:
        self.root = root / "vault"
        self.base = write_model(root / "base", CONFIG, TENSORS)
        self.home = root / "home"

    def model(self, name: str = "model", seed: int = 1) -> tuple[Path, Manifest]:
        folder = write_model(self.home / name, CONFIG, trained(TENSORS, seed), shards=2)
        return folder, seal(folder)

    def start(self, manifest: Manifest, source: Path, copy_id: str = "A-cp1") -> Copy:
        folder = self.root / "copies" / copy_id
        folder.mkdir(parents=True, exist_ok=True)
        order = Order(
            copy=copy_id,
            root=str(self.root),
            source=str(source),
            base=str(self.base),
            manifest=manifest,
            memory=Bytes(1 << 32),
        )
        return Copy(msgspec.json.decode(msgspec.json.encode(order), type=Order), folder)

    def copy(self, manifest: Manifest, source: Path, copy_id: str = "A-cp1") -> CopyResult:
        return self.start(manifest, source, copy_id).make()

    def refused(self, manifest: Manifest, source: Path) -> Refusal:
        with pytest.raises(Refusal) as caught:
            self.copy(manifest, source)
        assert read_kept(self.root, artifact_digest(manifest)) is None
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_kept_folder_is_the_sealed_one_read_only(place: Place) -> None:
    source, manifest = place.model()
    result = place.copy(manifest, source)
    assert (result.code, result.artifact, result.again) == ("", artifact_digest(manifest), False)
    kept = kept_folder(place.root, result.artifact)
    assert {path.name for path in kept.iterdir()} == {file.path for file in manifest.files} | {FILE_NAME}
    assert read_manifest((kept / FILE_NAME).read_bytes()) == manifest
    for file in manifest.files:
        assert (kept / file.path).read_bytes() == (source / file.path).read_bytes()
        assert (kept / file.path).stat().st_mode & 0o777 == 0o444
    assert [path.name for path in (place.root / "copies/A-cp1").iterdir()] == ["progress"]


def test_whatever_changed_since_the_seal_is_source_changed(place: Place) -> None:
    """F29, S37, S82: other bytes, fewer, more, swapped shards, a deleted file, a deleted folder."""
    source, manifest = place.model()
    first, second = sorted(source.glob("model-*.safetensors"))
    whole, other = first.read_bytes(), second.read_bytes()
    for data in (whole[:-1], whole + bytes(8), whole[:-1] + b"\x01", b"\xff" + whole[1:]):
        first.write_bytes(data)
        assert place.refused(manifest, source).code == codes.SOURCE_CHANGED
    first.write_bytes(other)
    second.write_bytes(whole)
    assert place.refused(manifest, source).code == codes.SOURCE_CHANGED
    first.unlink()
    assert "is gone" in place.refused(manifest, source).message
    assert place.refused(manifest, place.home / "nowhere").code == codes.SOURCE_CHANGED


def test_damage_that_was_sealed_keeps_its_own_code(place: Place) -> None:
    """F29: three distinct refusals, before the large files are copied."""
    source, _ = place.model()
    first, second = sorted(source.glob("model-*.safetensors"))
    whole, other = first.read_bytes(), second.read_bytes()
    for data, code in ((whole[:-1], codes.WEIGHTS_SHORT), (whole + bytes(8), codes.WEIGHTS_LONG)):
        first.write_bytes(data)
        assert place.refused(seal(source), source).code == code
    first.write_bytes(other)
    second.write_bytes(whole)
    assert place.refused(seal(source), source).code == codes.SHARDS_SWAPPED
    assert not list((place.root / "copies/A-cp1" / FILES).glob("model-0*"))


def test_a_rank_that_is_not_served_is_refused_before_copying(place: Place) -> None:
    """F31."""
    source = write_adapter(place.home / "lora", lora_config(rank=128), lora_tensors(CONFIG, rank=128))
    found = place.refused(seal(source), source)
    assert (found.code, "at most 64" in found.message) == (codes.RANK_TOO_HIGH, True)
    assert not (place.root / "copies/A-cp1" / FILES / "adapter_model.safetensors").exists()


def test_a_forbidden_file_is_refused_before_anything_is_read(place: Place) -> None:
    source, _ = place.model()
    (source / "optimizer.pt").write_bytes(b"pickle")
    assert place.refused(seal(source), source).code == codes.FORBIDDEN_FILE
    assert not (place.root / "copies/A-cp1" / FILES).exists()


def test_a_manifest_with_a_link_copies_nothing_of_another(place: Place, tmp_path: Path) -> None:
    """F33: the link's target has the sealed bytes, and still isn't read."""
    source, manifest = place.model()
    shard = next(source.glob("model-*.safetensors"))
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert place.refused(manifest, source).code == codes.UNSAFE_FILE


def test_files_that_an_earlier_child_completed_are_not_copied_again(place: Place) -> None:
    """S05: the copy goes on where it was; a torn part is done again."""
    source, manifest = place.model()
    copy = place.start(manifest, source)
    copy.staging.mkdir()
    with copy._open_source() as opened:
        for file in manifest.files[:-1]:
            staging.copy_file(opened, file, copy.staging, lambda count: None)
    left = copy.staging / (manifest.files[-1].path + staging.PART)
    left.write_bytes(b"torn")
    (copy.staging / manifest.files[0].path).chmod(0o644)
    (copy.staging / manifest.files[0].path).write_bytes(b"{}")  # damaged meanwhile: done again
    marks = {file.path: (copy.staging / file.path).stat().st_ino for file in manifest.files[1:-1]}
    result = place.copy(manifest, source)
    kept = kept_folder(place.root, result.artifact)
    assert {name: (kept / name).stat().st_ino for name in marks} == marks
    assert all(
        (kept / file.path).read_bytes() == (source / file.path).read_bytes() for file in manifest.files
    )
    assert {path.name for path in kept.iterdir()} == {file.path for file in manifest.files} | {FILE_NAME}


def test_a_child_that_died_after_the_rename_is_no_second_copy(place: Place) -> None:
    source, manifest = place.model()
    first = place.copy(manifest, source)
    assert place.copy(manifest, source) == first


def test_only_who_has_the_weights_may_nominate_kept_ones(place: Place) -> None:
    """S67: the same weights in another folder are read but not kept twice; a manifest alone is not enough."""
    source, manifest = place.model()
    place.copy(manifest, source)
    thief = place.home / "thief"
    thief.mkdir()
    (thief / FILE_NAME).write_bytes((source / FILE_NAME).read_bytes())
    with pytest.raises(Refusal) as caught:
        place.copy(manifest, thief, "B-cp2")
    assert caught.value.code == codes.SOURCE_CHANGED
    for file in manifest.files:
        (thief / file.path).write_bytes(bytes(file.bytes))
    with pytest.raises(Refusal):
        place.copy(manifest, thief, "B-cp3")
    honest, _ = place.model("honest")
    assert place.copy(manifest, honest, "B-cp4").again
    kept = read_kept(place.root, artifact_digest(manifest))
    assert kept is not None and kept.sources == (str(source), str(honest))


def test_two_copies_of_the_same_weights_at_once_end_as_one(place: Place) -> None:
    source, manifest = place.model()
    other, _ = place.model("other")
    first, second = place.start(manifest, source, "A-cp1"), place.start(manifest, other, "B-cp2")
    with second._open_source() as opened:
        second._stage(opened)
    assert not first.make().again
    kept = read_kept(place.root, second.artifact)
    assert kept is not None
    assert second._keep(msgspec.structs.replace(kept, copy="B-cp2")).again
    assert not second.staging.exists()


def test_a_manifest_that_leaves_the_folder_is_refused(place: Place) -> None:
    """F33: checked again where the files are opened."""
    source, manifest = place.model()
    files = json.loads(msgspec.json.encode(manifest.files))
    files[0]["path"] = "../config.json"
    odd = msgspec.convert({"facts": {}, "format": manifest.format, "files": files}, type=Manifest)
    with pytest.raises(BadInput, match="a relative path inside the folder"):
        place.copy(odd, source)
