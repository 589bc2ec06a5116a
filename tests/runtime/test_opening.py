"""A competition on disk becomes a run: everything wrong at once, everything frozen, nothing of another run touched."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import msgspec
import pytest
from tests.runtime.opening import AT, SLEEPER, TOML, opened, write_competition

from palestra.referee.exams import commitment
from palestra.rules.errors import BadInput, Broken, Refusal
from palestra.rules.read import BadCompetition
from palestra.runtime.folder import RunFolder, digest_folder
from palestra.runtime.opening import (
    SEED,
    clear_folder,
    missing_files,
    new_id,
    open_folder,
    read_source,
    refuse_edited,
    refuse_other,
)
from palestra.runtime.preparing import prepare
from palestra.runtime.seats import TOKENS


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_competition_is_read_from_its_folder_or_its_file(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    assert read_source(file) == read_source(file.parent)
    assert read_source(file).folder == file.parent
    for wrong in (tmp_path / "nothing", file.parent / "base"):
        with pytest.raises(BadInput) as told:
            read_source(wrong)
        assert str(told.value) == (
            f"competition: '{wrong}' can't be read; give a folder with a competition.toml, or such a file; "
            "`palestra new NAME` makes one"
        )


def test_every_fault_of_the_file_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    file = write_competition(tmp_path, toml=TOML.replace('"10m"', '"10"').replace('"$1"', "1"))
    with pytest.raises(BadCompetition) as told:
        read_source(file)
    lines = str(told.value).splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"{file}:") for line in lines)
    assert lines[0].startswith(f'{file}:8: stages.running = "10": ')
    file.write_bytes(b"\xff")
    with pytest.raises(BadInput, match=r"'byte 0' can't be read; a competition's file is TOML text in UTF-8"):
        read_source(file)


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    file = write_competition(tmp_path, toml=TOML + '\n[[data]]\nname = "pool"\npath = "data"\n')
    place = file.parent
    (place / "exam.py").unlink()
    (place / "base" / "config.json").unlink()
    (place / "base").rmdir()
    assert missing_files(read_source(file)) == [
        f"base.path: {place}/base isn't there",
        f"exam.program: {place}/exam.py isn't there",
        f"data.pool: {place}/data isn't there",
    ]


MAKES = """
[[prepare]]
creates = "made"
run = ["python", "-c", "import os; os.mkdir('made'); open('runs.txt', 'a').write('once ')"]
"""


def test_what_can_be_made_is_made_once(tmp_path: Path) -> None:
    source = read_source(
        write_competition(tmp_path, toml=TOML.replace('path = "base"', 'path = "made"') + MAKES)
    )
    assert missing_files(source) == [], "it will be made"
    said: list[str] = []
    prepare(source, said.append)
    prepare(source, said.append)
    assert (source.folder / "runs.txt").read_text() == "once "
    assert len(said) == 1 and said[0].startswith("preparing made: python -c ")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("['python', '-c', 'print(chr(233)); raise ValueError(5)']", "failed with exit code 1"),
        ("['python', '-c', 'pass']", "ended without making "),
        ("['python', '-c', 'import sys; sys.stdout.buffer.write(bytes([255])); sys.exit(2)']", "failed with exit code 2"),
        ("['no-such-program']", "no-such-program can't be run: No such file or directory"),
    ],
)  # fmt: skip
def test_what_cant_be_made_is_told_with_the_end_of_its_output(tmp_path: Path, run: str, said: str) -> None:
    text = TOML + f"\n[[prepare]]\ncreates = 'made'\nrun = {run}\n"
    source = read_source(write_competition(tmp_path, toml=text))
    with pytest.raises(Broken) as told:
        prepare(source)
    assert str(told.value).startswith("preparing made: ") and said in str(told.value)
    if "ValueError" in run:
        assert "\nValueError: 5" in str(told.value)


def test_half_of_what_was_made_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """A command that failed after it had made its folder is run again, not believed."""
    run = "['python', '-c', 'import os, sys; os.mkdir(\"made\"); sys.exit(1)']"
    text = TOML + f"\n[[prepare]]\ncreates = 'made'\nrun = {run}\n"
    source = read_source(write_competition(tmp_path, toml=text))
    for _ in range(2):
        with pytest.raises(Broken, match="failed with exit code 1"):
            prepare(source)
    assert (source.folder / "made.preparing").exists()
    (source.folder / "made" / "old").write_text("")
    good = read_source(write_competition(tmp_path / "good", toml=TOML + MAKES))
    (source.folder / "made").rename(good.folder / "made")
    (source.folder / "made.preparing").rename(good.folder / "made.preparing")
    prepare(good)
    assert list((good.folder / "made").iterdir()) == []
    assert not (good.folder / "made.preparing").exists()


def test_an_opened_run_holds_what_it_was_opened_with(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    (file.parent / "terms.md").write_text("# Terms\n")
    run = opened(tmp_path, file)
    kept = run.folder.competition
    assert (kept / "competition.toml").read_bytes() == file.read_bytes()
    assert (kept / "terms.md").read_text() == "# Terms\n"
    assert (kept / "playbooks" / "scripted" / "small.toml").exists()
    assert run.opened.competition == sha(file.read_bytes())
    assert run.opened.terms == sha(b"# Terms\n")
    assert run.opened.exam_program == sha((file.parent / "exam.py").read_bytes())
    assert run.opened.base == digest_folder(file.parent / "base")
    assert run.opened.start == AT and run.opened.isolation == "none"
    read = run.folder.read()
    assert (read.source, read.base) == (str(file), str(file.parent / "base"))


def test_secrets_are_made_anew_for_every_run_and_only_committed_to(tmp_path: Path) -> None:
    file = write_competition(tmp_path, SLEEPER + SLEEPER.replace("Sleeper", "Other"))
    runs = [opened(tmp_path / name, file) for name in ("one", "two")]
    seeds = [run.folder.read_secret(SEED).decode() for run in runs]
    tokens = [msgspec.json.decode(run.folder.read_secret(TOKENS), type=dict[str, str]) for run in runs]
    assert len(set(seeds)) == 2 and all(len(seed) == 64 for seed in seeds)
    assert [list(one) for one in tokens] == [["A", "B"], ["A", "B"]]
    assert len({token for one in tokens for token in one.values()}) == 4
    for run, seed, given in zip(runs, seeds, tokens, strict=True):
        assert run.opened.exam_seed_commitment == commitment(seed)
        assert stat.S_IMODE(run.folder.secrets.stat().st_mode) == 0o700
        secret = [seed.encode(), *(token.encode() for token in given.values())]
        for row in run.rows:
            assert not any(word in row.body for word in secret)
        for path in run.folder.path.rglob("*"):
            if path.is_file() and path.parent != run.folder.secrets:
                assert not any(word in path.read_bytes() for word in secret), path
            elif path.is_file():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    run = opened(tmp_path, file)
    refuse_edited(run.folder, run.folder.read(), run.opened.competition)
    text = file.read_text()
    for changed in (text + "\n", text.replace('"10m"', '"20m"'), "", "no toml ["):
        file.write_text(changed)
        with pytest.raises(Refusal) as told:
            refuse_edited(run.folder, run.folder.read(), run.opened.competition)
        assert str(told.value) == (
            f"{file} was edited since {run.folder.path} opened, and a run's rules don't change by editing: put the file back "
            f"(it is kept as {run.folder.competition}/competition.toml), or open a new run under another name"
        )
    file.unlink()
    refuse_edited(run.folder, run.folder.read(), run.opened.competition)  # the run has all it needs


def test_another_competition_under_the_runs_name_is_refused(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    run = opened(tmp_path, file)
    other = write_competition(tmp_path / "other", toml=TOML.replace("Small", "Large"))
    refuse_other(run.folder, run.folder.read(), read_source(file), run.opened.competition)
    with pytest.raises(Refusal) as told:
        refuse_other(run.folder, run.folder.read(), read_source(other), run.opened.competition)
    assert f"{run.folder.path} was opened with {file}, and {other} is another competition" in str(told.value)


def test_ids_of_runs_differ(tmp_path: Path) -> None:
    rules = read_source(write_competition(tmp_path)).rules
    ids = {new_id(rules) for _ in range(20)}
    assert len(ids) == 20 and all(one.startswith("small-") for one in ids)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "thesis.tex").write_text("x")
    with pytest.raises(Broken) as told:
        clear_folder(folder)
    assert str(told.value) == (
        f"{folder.path} isn't a run and holds other things, such as thesis.tex; name a folder that isn't there yet"
    )
    assert (folder.path / "thesis.tex").read_text() == "x"


def test_what_a_broken_off_opening_left_is_put_aside(tmp_path: Path) -> None:
    folder, source = RunFolder(tmp_path / "run"), read_source(write_competition(tmp_path))
    for number in (1, 2):
        clear_folder(folder)
        open_folder(folder, source, f"small-{number}", AT, "none")
    clear_folder(folder)
    left = {path.name for path in folder.path.iterdir()}
    assert left == {"lock", "unopened-1", "unopened-2"}
    assert (folder.path / "unopened-1" / "secrets" / SEED).exists()
