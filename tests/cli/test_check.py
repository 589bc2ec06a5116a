"""`palestra check`: everything that is wrong or missing, at once, each with its place and what would be right."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tests.cli.terminal import child, palestra
from tests.runtime.opening import SLEEPER, TOML, write_competition

from palestra.journal.filesystem import refuse_unfit
from palestra.rules.errors import Broken

REAL = """
[[upstreams]]
name = "real"
url = "https://models.example/v1"
{key}

[[models]]
name = "large"
upstream = "real"
input = "$1"
output = "$1"
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def wrong(*words: str | Path) -> list[str]:
    """What a check that fails lists."""
    said = palestra("check", *words)
    assert said.code == 1 and said.err == "", said
    lines = said.out.splitlines()
    assert lines[-1] == "not ready"
    return [line.removeprefix("  wrong: ") for line in lines if line.startswith("  wrong: ")]


def test_all_faults_of_the_rules_come_at_once_with_their_lines(tmp_path: Path) -> None:
    """A stranger can mend the file in one go: line, key, value and what would be right, in the file's order."""
    toml = (
        TOML.replace('running = "10m"', 'running = "2:00"')
        .replace('api_credit = "$1"', "api_credit = 1")
        .replace('memory = "1GiB"', 'memory = "1G"', 1)
        .replace("gpus_per_job = 1", "gpus_per_jobs = 1")
    )
    file = write_competition(tmp_path, toml=toml)
    said = palestra("check", file)
    assert said.code == 1 and said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith(f'palestra: {file}:8: stages.running = "2:00": ')
    keys = [line.split(": ")[2 if line.startswith("palestra: ") else 1].split(" = ")[0] for line in lines]
    assert keys == [
        "stages.running",
        "allowance.api_credit",
        "nodes[0].memory",
        "jobs.gpus_per_job",
        "jobs.gpus_per_jobs",
    ]
    numbers = [int(line.removeprefix("palestra: ").split(":")[1]) for line in lines]
    assert numbers == sorted(numbers)
    assert "did you mean gpus_per_job?" in said.err
    assert "Traceback" not in said.err


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    file.write_text('name = "x"\nrunning = [1,\n')
    said = palestra("check", file)
    assert said.code == 1
    assert said.sentence.startswith(f"{file}:2: syntax: not TOML: ") or said.sentence.startswith(
        f"{file}:3: syntax: not TOML: "
    )


@pytest.mark.parametrize("place", ["nowhere", "competition/base"])
def test_no_competition_there(tmp_path: Path, place: str) -> None:
    write_competition(tmp_path)
    said = palestra("check", place)
    assert said.code == 1
    assert said.sentence == (
        f"competition: '{place}' can't be read; give a folder with a competition.toml, or such a file; `palestra new NAME` makes one"
    )


def test_everything_missing_is_listed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_KEY", raising=False)
    toml = TOML + REAL.format(key='key_env = "MODEL_KEY"') + '\n[[data]]\nname = "pool"\npath = "data"\n'
    entrant = SLEEPER.replace('"sleep"', '"no-such-agent"')
    file = write_competition(
        tmp_path, entrant, toml.replace("[jobs]", '[jobs]\nenvironment = "/no/such/env"')
    )
    (file.parent / "exam.py").unlink()
    (file.parent / "playbooks" / "small.toml").unlink()
    (tmp_path / "runs").write_text("a file in the way")
    assert wrong("competition") == [
        f"exam.program: {file.parent}/exam.py isn't there",
        f"data.pool: {file.parent}/data isn't there",
        "upstreams.real.key_env: the environment has no MODEL_KEY; set it where `palestra run` is called",
        f"models.small: its playbook {file.parent}/playbooks/small.toml isn't there",
        "jobs.environment: /no/such/env isn't a folder",
        "entrants.Sleeper.command: there is no program 'no-such-agent' on agents' PATH",
        "runs: runs isn't a folder",
    ]


def test_a_key_file_that_others_can_read(tmp_path: Path) -> None:
    file = write_competition(tmp_path, toml=TOML + REAL.format(key='key_file = "key"'))
    key = file.parent / "key"
    assert wrong("competition") == [f"upstreams.real.key_file: {key} isn't there"]
    key.write_text("sk-1")
    key.chmod(0o644)
    assert wrong("competition") == [f"upstreams.real.key_file: others can read {key}; run: chmod 600 {key}"]
    key.chmod(0o600)
    assert palestra("check", "competition").code == 0


def test_a_playbook_that_cannot_be_played(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    (file.parent / "playbooks" / "small.toml").write_text("[[turn]]\nsay = 5\n")
    (told,) = wrong("competition")
    assert told.startswith(f"{file.parent}/playbooks/small.toml: turn 1")


def test_a_runs_folder_that_cannot_be_written() -> None:
    """Asked by somebody who isn't root, as root may write anywhere."""
    with tempfile.TemporaryDirectory(prefix="check-") as made:
        place = Path(made)
        place.chmod(0o755)
        write_competition(place)
        (place / "closed").mkdir(mode=0o555)
        (place / "tmp").mkdir()
        (place / "tmp").chmod(0o777)
        code = (
            "import os, sys\nfrom palestra.cli.main import build_parser, main\nbuild_parser('check')\n"
            "os.getuid() or os.setuid(65534)\n"
            "sys.argv = ['palestra', 'check', 'competition', '--runs', 'closed/runs']\nmain()"
        )
        said = child("-B", "-c", code, cwd=place, env={"TMPDIR": str(place / "tmp")})
    assert said.code == 1 and said.err == ""
    assert said.out.splitlines()[-2:] == [
        f"  wrong: runs: nothing can be written in {place}/closed",
        "not ready",
    ]


def test_where_nothing_can_be_made_one_sentence_says_so(tmp_path: Path) -> None:
    """/proc takes no folders, from root neither."""
    write_competition(tmp_path)
    said = palestra("run", "competition", "--runs", "/proc/runs")
    assert said.code == 1
    assert "/proc" in said.err and "Traceback" not in said.err


def test_a_socket_folder_that_isnt_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_competition(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = tmp_path / f"palestra-{os.getuid()}"
    ours.mkdir()
    ours.chmod(0o777)
    (told,) = wrong("competition")
    assert told.startswith(
        f"sockets: {ours} must be a folder of yours that nobody else can enter (mode 0700)"
    )
    said = palestra("run", "competition")
    assert said.code == 1 and str(ours) in said.err
    assert not (tmp_path / "runs").exists(), "nothing was opened"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("nfs4", "locks and synced writes can't be relied on over a network"),
        ("lustre", "locks and synced writes can't be relied on over a network"),
        (
            "overlay",
            "a layered file system can swap a file under an open lock, and goes when its container goes",
        ),
    ],
)
def test_a_journal_on_a_file_system_that_cant_hold_one(tmp_path: Path, kind: str, why: str) -> None:
    """What `palestra check` asks of the runs folder, with another machine's mounts."""
    mounts = f"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 21 0:32 / {tmp_path} rw - {kind} somewhere:/x rw\n"
    with pytest.raises(Broken) as told:
        refuse_unfit(tmp_path, mounts)
    assert str(told.value) == (
        f"{tmp_path}: a journal can't lie on {kind} (mounted at {tmp_path}): {why}; choose a folder on a local disk"
    )


def test_run_refuses_what_check_finds_before_anything_is_opened(tmp_path: Path) -> None:
    file = write_competition(tmp_path)
    (file.parent / "exam.py").unlink()
    said = palestra("run", "competition")
    assert said.code == 1 and said.out == ""
    assert said.err == (
        f"palestra: this competition can't run yet:\n  exam.program: {file.parent}/exam.py isn't there\n"
    )
    assert not (tmp_path / "runs").exists()
