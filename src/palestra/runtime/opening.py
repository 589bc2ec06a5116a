"""Opens a run: the competition's files are read, checked and frozen, secrets made; a folder and one request come out."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import subprocess
import sys
import zoneinfo
from pathlib import Path

import msgspec

from palestra import __version__
from palestra.referee.exams import commitment
from palestra.referee.requests import OpenRun
from palestra.rules.competition import Competition
from palestra.rules.errors import BadInput, Broken
from palestra.rules.read import read_competition
from palestra.rules.units import Digest, Moment
from palestra.runtime.folder import RunFile, RunFolder, digest_folder

SEED = "exam.seed"
TOKENS = "tokens.json"
SALTS = "salts.json"


class Source(msgspec.Struct, frozen=True):
    """A competition as found on disk."""

    file: Path
    text: bytes
    rules: Competition

    @property
    def folder(self) -> Path:
        """Where its relative paths begin."""
        return self.file.parent


def read_source(path: Path) -> Source:
    """A competition from its folder or file; `BadCompetition` tells every fault at once."""
    file = path / "competition.toml" if path.is_dir() else path
    if not file.is_file():
        raise BadInput(
            "competition",
            str(path),
            "a folder with a competition.toml, or such a file; `palestra new NAME` makes one",
        )
    text = file.read_bytes()
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        raise BadInput(str(file), f"byte {error.start}", "TOML text in UTF-8") from None
    rules = read_competition(written, zones=frozenset(zoneinfo.available_timezones()), file=str(file))
    return Source(file.resolve(), text, rules)


def missing_files(source: Source) -> list[str]:
    """Everything the competition names that isn't there, in one list."""
    rules, folder = source.rules, source.folder
    made = {step.creates for step in rules.prepare}
    wanted = [("base.path", rules.base.path), ("exam.program", rules.exam.program)]
    wanted += [(f"data.{data.name}", data.path) for data in rules.data]
    wanted += [(f"upstreams.{one.name}.playbooks", one.playbooks) for one in rules.upstreams if one.playbooks]
    return [
        f"{key}: {folder / path} isn't there"
        for key, path in wanted
        if path not in made and not (folder / path).exists()
    ]


def prepare(source: Source, say: object = None) -> None:
    """Make what the competition can make for itself, once: each command runs only when what it creates is absent."""
    for step in source.rules.prepare:
        target = source.folder / step.creates
        if target.exists():
            continue
        if callable(say):
            say(f"preparing {step.creates}: {' '.join(step.run)}")
        argv = [sys.executable if step.run[0] == "python" else step.run[0], *step.run[1:]]
        done = subprocess.run(
            argv, cwd=source.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode or not target.exists():
            tail = "\n".join(done.stdout.splitlines()[-8:])
            raise Broken(
                f"preparing {step.creates} failed with exit code {done.returncode}: {' '.join(argv)}\n{tail}",
                retry=False,
            )


def open_folder(folder: RunFolder, source: Source, at: Moment, isolation: str) -> OpenRun:
    """Lay the run's folder out and say how it opens. `run.toml` is not written yet: see `finish_opening`."""
    rules = source.rules
    folder.make()
    terms = source.folder / "terms.md"
    frozen = {"competition.toml": source.text, "exam.py": (source.folder / rules.exam.program).read_bytes()}
    frozen["terms.md"] = terms.read_bytes() if terms.exists() else b""
    for name, data in frozen.items():
        (folder.competition / name).write_bytes(data)
    for upstream in rules.upstreams:
        if upstream.playbooks:
            shutil.copytree(
                source.folder / upstream.playbooks,
                folder.competition / "playbooks" / upstream.name,
                dirs_exist_ok=True,
            )
    seed = secrets.token_hex(32)
    folder.write_secret(SEED, seed.encode())
    corners = [chr(ord("A") + index) for index in range(len(rules.entrants))]
    folder.write_secret(
        TOKENS, msgspec.json.encode({corner: secrets.token_urlsafe(24) for corner in corners})
    )
    return OpenRun(
        actor="server",
        key=None,
        run=f"{rules.name}-{secrets.token_hex(4)}",
        rules=rules,
        start=rules.stages.start if rules.stages.start is not None else at,
        competition=_digest(source.text),
        terms=_digest(frozen["terms.md"]),
        exam_program=_digest(frozen["exam.py"]),
        base=Digest(digest_folder(source.folder / rules.base.path)),
        exam_seed_commitment=commitment(seed),
        isolation=isolation,
        sealed_names=_seal_names(folder, rules),
    )


def _seal_names(folder: RunFolder, rules: Competition) -> tuple[tuple[str, str], ...]:
    """Salted commitments to true names; the salts stay in secrets."""
    salts = {rule.alias: secrets.token_hex(16) for rule in rules.entrants if rule.alias}
    folder.write_secret(SALTS, msgspec.json.encode(salts))
    return tuple(
        (rule.alias, hashlib.sha256(f"{salts[rule.alias]}\n{rule.name}\n{rule.lab}".encode()).hexdigest())
        for rule in rules.entrants
        if rule.alias
    )


def finish_opening(folder: RunFolder, source: Source, run: str) -> None:
    """Mark the folder as a whole run, once RunOpened is durable."""
    base = str((source.folder / source.rules.base.path).resolve())
    folder.write(RunFile(run, str(source.file), base, __version__))


def refuse_edited(folder: RunFolder, file: RunFile, opened: Digest) -> None:
    """A competition file that changed since the run opened is refused: rules change by recorded events only."""
    source = Path(file.source)
    if source.is_file() and _digest(source.read_bytes()) != opened:
        raise BadInput(
            "competition.toml",
            str(source),
            f"the file as it was when this run opened (kept in {folder.competition}); a running competition's rules "
            "don't change by editing: put the file back, or open a new run",
        )


def _digest(data: bytes) -> Digest:
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())
