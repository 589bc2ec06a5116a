"""The vault on a disk and its children: adoption, resumption, lanes, and copies that can't be made."""

import fcntl
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from palestra.ports import CopyResult
from palestra.rules.errors import BadInput
from palestra.rules.manifest import FORMAT, Facts, Manifest, ManifestFile, artifact_digest
from palestra.rules.units import Bytes
from palestra.vault import codes
from palestra.vault.folder import FolderVault, is_locked, start_child
from palestra.vault.order import LOCK
from palestra.vault.samples import llama_config, llama_tensors, seal, trained, write_model

CONFIG = llama_config()
TENSORS = llama_tensors(CONFIG)
DEADLINE = 60.0


def wait_until(so: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + DEADLINE
    while not so():
        assert time.monotonic() < give_up, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.01)  # between two looks


def result_of(vault: FolderVault, copy_id: str) -> CopyResult:
    wait_until(lambda: any(result.copy == copy_id for result in vault.results()), f"{copy_id} ended")
    return next(result for result in vault.results() if result.copy == copy_id)


class Starter:
    """Starts children that wait at a gate: a copy that is surely still going on."""

    def __init__(self) -> None:
        self.copies: list[str] = []
        self.pids: list[int] = []
        self.gates: list[Path] = []

    def __call__(self, argv: Sequence[str], log: Path) -> int:
        gate = log.with_name(f"gate-{len(self.gates)}")
        os.mkfifo(gate)
        wait_first = ("/bin/sh", "-c", 'read line < "$0"; exec "$@"', str(gate), *argv)
        self.copies.append(Path(argv[-1]).name)
        self.gates.append(gate)
        self.pids.append(start_child(wait_first, log))
        return self.pids[-1]

    def go_on(self, which: int) -> None:
        self.gates[which].write_text("go\n")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_model(tmp_path / "base", CONFIG, TENSORS)


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Manifest, Path]:
    source = write_model(tmp_path / "homes/A/model", CONFIG, trained(TENSORS))
    return seal(source), source


def of_size(size: int, name: str) -> Manifest:
    """A manifest of a checkpoint that isn't there: enough to be placed in a lane."""
    file = ManifestFile(bytes=size, path=f"{name}.safetensors", sha256="0" * 64)
    return Manifest(facts=Facts(), files=(file,), format=FORMAT)


def stop(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_small_copies_do_not_wait_behind_large_ones(tmp_path: Path, base: Path) -> None:
    """S06: 60 GB in progress, 200 MB nominated: it starts at once; of the large two at a time."""
    starter = Starter()
    vault = FolderVault(tmp_path / "vault", base, start=starter)
    for copy_id in ("A-cp1", "B-cp1", "C-cp1"):
        vault.copy(of_size(60_000_000_000, copy_id), tmp_path / "homes", copy_id)
    for copy_id in ("A-cp2", "D-cp1", "E-cp1"):
        vault.copy(of_size(200_000_000, copy_id), tmp_path / "homes", copy_id)
    assert starter.copies == ["A-cp1", "B-cp1", "A-cp2", "D-cp1", "E-cp1"]
    starter.go_on(0)
    assert result_of(vault, "A-cp1").code == codes.NOT_LOADABLE
    assert starter.copies[5:] == ["C-cp1"]
    stop(starter.pids[1:])


def test_a_child_of_an_earlier_server_is_adopted(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """The lock says that a child is at work: no second one is started, and its result is found."""
    vault = FolderVault(tmp_path / "vault", base, start=Starter())
    folder = tmp_path / "vault/copies/A-cp1"
    folder.mkdir()
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = Starter()
        FolderVault(tmp_path / "vault", base, start=before).copy(*sealed, "A-cp1")
        assert before.copies == []
        assert is_locked(folder)
    assert not is_locked(folder)
    assert vault.results() == []
    after = FolderVault(tmp_path / "vault", base)
    assert result_of(after, "A-cp1").code == ""


def test_a_child_that_was_killed_is_begun_again(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """Killed before its first file; the copy resumes and is kept once."""
    starter = Starter()
    vault = FolderVault(tmp_path / "vault", base, start=starter, retry_after=(0.0, 0.0))
    vault.copy(*sealed, "A-cp1")
    os.kill(starter.pids[0], signal.SIGKILL)
    wait_until(lambda: vault.results() or len(starter.pids) == 2, "a second child")
    starter.go_on(1)
    result = result_of(vault, "A-cp1")
    assert (result.code, result.again) == ("", False)
    assert starter.copies == ["A-cp1", "A-cp1"]


def reached(vault: FolderVault, goal: int) -> bool:
    return bool(vault.results()) or vault.progress("A-cp1") >= goal


def started(vault: FolderVault, pids: list[int], count: int) -> bool:
    return bool(vault.results()) or len(pids) >= count


@pytest.mark.slow
def test_a_child_killed_at_any_point_of_a_copy_leaves_all_or_nothing(tmp_path: Path) -> None:
    """S03, S05: killed again and again at growing progress; the end is one kept artifact, equal to the source."""
    config = llama_config(hidden=256, layers=8, words=4000)
    tensors = llama_tensors(config)
    base = write_model(tmp_path / "base", config, tensors)
    source = write_model(tmp_path / "model", config, trained(tensors), shards=6)
    manifest = seal(source)
    pids: list[int] = []

    def start(argv: Sequence[str], log: Path) -> int:
        pids.append(start_child(argv, log))
        return pids[-1]

    vault = FolderVault(tmp_path / "vault", base, start=start, retry_after=(0.0,) * 50)
    vault.copy(manifest, source, "A-cp1")
    for share in range(1, 12):
        goal, count = manifest.size * share // 12, len(pids)
        wait_until(partial(reached, vault, goal), f"{goal} bytes")
        if vault.results():
            break
        os.kill(pids[-1], signal.SIGKILL)
        wait_until(partial(started, vault, pids, count + 1), "the next child")
    result = result_of(vault, "A-cp1")
    assert (result.code, result.again, len(pids) > 1) == ("", False, True)
    kept = vault.path(result.artifact)
    for file in manifest.files:
        assert (kept / file.path).read_bytes() == (source / file.path).read_bytes()
    assert sorted(path.name for path in (tmp_path / "vault").iterdir()) == sorted(
        [kept.name, f"{kept.name}.json", "copies"]
    )


def test_a_copy_that_cannot_be_made_ends_with_the_childs_last_words(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """The arena's own fault is told from the entrant's: another code, and evidence."""
    vault = FolderVault(tmp_path / "vault", base, retry_after=(0.0,))
    (base / "config.json").unlink()
    (base / "model.safetensors").rename(base / "model.old")
    vault.copy(*sealed, "A-cp1")
    # The base is gone: a fault of the arena, which the child says by dying.
    result = result_of(vault, "A-cp1")
    assert result.code == codes.COPY_BROKE
    assert "ended 2 times without a result" in result.evidence and "config.json" in result.evidence


def test_a_child_that_needs_too_much_memory_ends_alone(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """Files made by others can't fill the machine: the child's address space is limited."""
    vault = FolderVault(tmp_path / "vault", base, retry_after=(), memory=Bytes(1 << 20))
    vault.copy(*sealed, "A-cp1")
    result = result_of(vault, "A-cp1")
    assert result.code == codes.COPY_BROKE
    assert re.search("MemoryError|Cannot allocate memory", result.evidence)


def test_kept_weights_from_the_same_folder_start_no_child(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """S67: new answer settings for the same weights take no copy at all."""
    result_of_first = FolderVault(tmp_path / "vault", base)
    result_of_first.copy(*sealed, "A-cp1")
    assert not result_of(result_of_first, "A-cp1").again
    starter = Starter()
    vault = FolderVault(tmp_path / "vault", base, start=starter)
    vault.copy(*sealed, "A-cp2")
    assert [result.again for result in vault.results() if result.copy == "A-cp2"] == [True]
    assert starter.copies == []


def test_a_running_copy_can_be_forgotten(tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]) -> None:
    starter = Starter()
    vault = FolderVault(tmp_path / "vault", base, start=starter)
    vault.copy(*sealed, "A-cp1")
    vault.forget("A-cp1")
    assert vault.results() == []
    assert not (tmp_path / "vault/copies/A-cp1").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(starter.pids[0], 0)


def test_half_dropped_artifacts_are_cleared_away(tmp_path: Path, base: Path) -> None:
    half = tmp_path / "vault/dropped-abc"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"x")
    FolderVault(tmp_path / "vault", base)
    assert not half.exists()


@pytest.mark.parametrize("copy_id", ["", "../x", "a/b", ".hidden", "x" * 65])
def test_a_copy_id_is_a_plain_name(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path], copy_id: str
) -> None:
    with pytest.raises(BadInput, match="copy id"):
        FolderVault(tmp_path / "vault", base).copy(*sealed, copy_id)


def test_a_source_outside_the_homes_is_refused(
    tmp_path: Path, base: Path, sealed: tuple[Manifest, Path]
) -> None:
    """F33."""
    vault = FolderVault(tmp_path / "vault", base, homes=tmp_path / "homes/B")
    vault.copy(*sealed, "A-cp1")
    assert result_of(vault, "A-cp1").code == codes.UNSAFE_FILE


def test_an_unchanged_copy_is_refused_with_a_code(tmp_path: Path, base: Path) -> None:
    """S98: the base, sealed as if it had been trained."""
    source = write_model(tmp_path / "model", CONFIG, TENSORS)
    manifest = seal(source)
    vault = FolderVault(tmp_path / "vault", base)
    vault.copy(manifest, source, "A-cp1")
    assert result_of(vault, "A-cp1").code == codes.UNCHANGED_COPY
    with pytest.raises(KeyError):
        vault.path(artifact_digest(manifest))
    assert not (tmp_path / "vault/copies/A-cp1/files").exists()
