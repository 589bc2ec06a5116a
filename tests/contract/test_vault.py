"""What every vault must do, the one on a disk and the one for simulations: copies by id, artifacts by digest."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from palestra.events.nominations import Inspection
from palestra.ports import CopyResult, Vault
from palestra.rules.manifest import Manifest, artifact_digest
from palestra.rules.units import SECOND, Digest, Moment
from palestra.vault import codes
from palestra.vault.fake import FakeVault
from palestra.vault.folder import FolderVault
from palestra.vault.samples import llama_config, llama_tensors, seal, trained, write_model

CONFIG = llama_config()
TENSORS = llama_tensors(CONFIG)
DEADLINE = 60.0


class Place(Protocol):
    """A vault, a way to let time pass for it, and a way to make it refuse a manifest."""

    vault: Vault

    def wait(self) -> None: ...
    def crash(self) -> None: ...
    def spoil(self, source: Path, manifest: Manifest) -> None: ...


class FolderPlace:
    def __init__(self, root: Path) -> None:
        self.root = root
        write_model(root / "base", CONFIG, TENSORS)
        self.gone: list[FolderVault] = []
        self.vault: Vault = FolderVault(root / "vault", root / "base")

    def wait(self) -> None:
        time.sleep(0.02)  # between two looks, never instead of one

    def crash(self) -> None:
        """A new server's vault over the same folder; the old one's children live on."""
        self.vault = FolderVault(self.root / "vault", self.root / "base")

    def spoil(self, source: Path, manifest: Manifest) -> None:
        (source / manifest.files[-1].path).unlink()


class FakePlace:
    def __init__(self) -> None:
        self.at = Moment(0)
        self.fake = FakeVault(lambda: self.at, rate=10_000)
        self.vault: Vault = self.fake

    def wait(self) -> None:
        self.at = Moment(self.at + SECOND)

    def crash(self) -> None:
        """Nothing: the object stands for the children, who live on."""

    def spoil(self, source: Path, manifest: Manifest) -> None:
        self.fake.refusals[artifact_digest(manifest)] = (codes.SOURCE_CHANGED, "it changed")


MAKERS: dict[str, Callable[[Path], Place]] = {"folder": FolderPlace, "fake": lambda root: FakePlace()}


@pytest.fixture(params=list(MAKERS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MAKERS[str(request.param)](tmp_path)


def sealed(folder: Path, seed: int = 1) -> tuple[Manifest, Path]:
    write_model(folder, CONFIG, trained(TENSORS, seed))
    return seal(folder), folder


def result_of(place: Place, copy_id: str) -> CopyResult:
    """Wait until this copy has ended, or the deadline has passed."""
    give_up = time.monotonic() + DEADLINE
    while time.monotonic() < give_up:
        found = [result for result in place.vault.results() if result.copy == copy_id]
        if found:
            assert len(found) == 1
            return found[0]
        place.wait()
    raise AssertionError(f"{copy_id} has not ended")


def test_a_copy_is_kept_and_inspected(place: Place, tmp_path: Path) -> None:
    """S03: it is there by digest only once it has ended well."""
    manifest, source = sealed(tmp_path / "a")
    artifact = artifact_digest(manifest)
    with pytest.raises(KeyError):
        place.vault.path(artifact)
    place.vault.copy(manifest, source, "A-cp1")
    result = result_of(place, "A-cp1")
    assert (result.code, result.artifact, result.size, result.again) == ("", artifact, manifest.size, False)
    assert isinstance(result.inspection, Inspection)
    assert place.vault.path(artifact).name == artifact.removeprefix("sha256:")
    assert place.vault.progress("A-cp1") == manifest.size


def test_a_copy_id_is_one_copy(place: Place, tmp_path: Path) -> None:
    """Also when it is asked again after it ended, or by a new server."""
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    place.vault.copy(manifest, source, "A-cp1")
    place.crash()
    place.vault.copy(manifest, source, "A-cp1")
    first = result_of(place, "A-cp1")
    place.vault.copy(manifest, source, "A-cp1")
    assert place.vault.results() == [first]
    place.crash()
    assert place.vault.results() == [first]


def test_a_copy_outlives_the_server(place: Place, tmp_path: Path) -> None:
    """S03: killed during a copy, the next server finds how it ended."""
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    place.crash()
    assert result_of(place, "A-cp1").code == ""


def test_the_same_weights_are_kept_once(place: Place, tmp_path: Path) -> None:
    """S67: nominated again, nothing is copied and the first inspection holds."""
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    first = result_of(place, "A-cp1")
    place.vault.copy(manifest, source, "A-cp2")
    again = result_of(place, "A-cp2")
    assert (again.again, again.artifact, again.inspection) == (True, first.artifact, first.inspection)


def test_a_source_that_changed_is_not_kept(place: Place, tmp_path: Path) -> None:
    """S37, S82: a code and evidence; what was kept before stands."""
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    kept = result_of(place, "A-cp1")
    second, other = sealed(tmp_path / "b", seed=2)
    place.spoil(other, second)
    place.vault.copy(second, other, "A-cp2")
    failed = result_of(place, "A-cp2")
    assert (failed.code, failed.artifact) == (codes.SOURCE_CHANGED, "")
    assert failed.evidence
    with pytest.raises(KeyError):
        place.vault.path(artifact_digest(second))
    assert place.vault.path(kept.artifact).name == kept.artifact.removeprefix("sha256:")


def test_several_copies_go_on_at_once(place: Place, tmp_path: Path) -> None:
    copies = {f"{corner}-cp1": sealed(tmp_path / corner, seed) for seed, corner in enumerate("ABCD", 1)}
    for copy_id, (manifest, source) in copies.items():
        place.vault.copy(manifest, source, copy_id)
    digests = {result_of(place, copy_id).artifact for copy_id in copies}
    assert digests == {artifact_digest(manifest) for manifest, _ in copies.values()}


def test_forgotten_copies_are_told_no_more(place: Place, tmp_path: Path) -> None:
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    artifact = result_of(place, "A-cp1").artifact
    place.vault.forget("A-cp1")
    place.vault.forget("A-cp9")
    assert place.vault.results() == []
    assert place.vault.path(artifact).name == artifact.removeprefix("sha256:")
    place.crash()
    assert place.vault.results() == []


def test_a_dropped_artifact_is_gone_and_may_come_back(place: Place, tmp_path: Path) -> None:
    manifest, source = sealed(tmp_path / "a")
    place.vault.copy(manifest, source, "A-cp1")
    artifact = result_of(place, "A-cp1").artifact
    place.vault.drop(artifact)
    place.vault.drop(Digest("sha256:" + "0" * 64))
    with pytest.raises(KeyError):
        place.vault.path(artifact)
    place.vault.copy(manifest, source, "A-cp2")
    assert not result_of(place, "A-cp2").again
    assert place.vault.path(artifact).name == artifact.removeprefix("sha256:")


def test_nothing_is_known_of_a_copy_that_was_not_asked_for(place: Place) -> None:
    assert place.vault.progress("A-cp1") == 0
    assert place.vault.results() == []
