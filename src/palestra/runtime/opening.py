"""Opens a run: the competition's files are read, checked and frozen, secrets made; a folder and one request come out."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import shutil
import zoneinfo
from pathlib import Path

import msgspec

from palestra import __version__
from palestra.events.runs import ServerStarted
from palestra.journal import lock
from palestra.journal.tail import Tail
from palestra.referee.exams import commitment
from palestra.referee.requests import OpenRun
from palestra.rules.competition import Competition
from palestra.rules.errors import BadInput, Broken, Refusal
from palestra.rules.read import read_competition
from palestra.rules.units import Digest, Moment
from palestra.runtime.folder import RunFile, RunFolder, digest_folder
from palestra.runtime.sealing import public_text, seal_names
from palestra.runtime.seats import SALTS, TOKENS

SEED = "exam.seed"
NAMED = "competition.toml"
"""The competition's file with the true names, where some are sealed."""
ASIDE = "unopened-"
"""Folders with what is left of an opening that a crash broke off."""


class Source(msgspec.Struct, frozen=True):
    """A competition as found on disk."""

    file: Path
    text: bytes
    rules: Competition
    public: bytes
    """The text as it goes on the record."""

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
            "give a folder with a competition.toml, or such a file; `palestra new NAME` makes one",
        )
    text = file.read_bytes()
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            str(file), f"byte {error.start}", "a competition's file is TOML text in UTF-8"
        ) from None
    rules = read_competition(written, zones=frozenset(zoneinfo.available_timezones()), file=str(file))
    return Source(file.resolve(), text, rules, public_text(text))


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


def new_id(rules: Competition) -> str:
    """The id of a new run of this competition."""
    return f"{rules.name}-{secrets.token_hex(4)}"


def clear_folder(folder: RunFolder) -> None:
    """Make room for a new run: what a server left that died while it opened one is kept aside, as nobody was told of that run."""
    folder.path.mkdir(parents=True, exist_ok=True)
    strange = sorted(path.name for path in folder.path.iterdir() if not _is_ours(path.name))
    if strange:
        raise Broken(
            f"{folder.path} isn't a run and holds other things, such as {strange[0]}; name a folder that isn't there yet",
            retry=False,
        )
    held = lock.Lock(folder.path)
    try:
        if folder.exists:
            raise Broken(f"{folder.path} was opened by another process just now; run it again", retry=False)
        _refuse_without_run_file(folder)
        left = [path for path in folder.path.iterdir() if path.name != lock.FILE_NAME]
        left = [path for path in left if not path.name.startswith(ASIDE)]
        if left:
            names = (folder.path / f"{ASIDE}{number}" for number in itertools.count(1))
            aside = next(path for path in names if not path.exists())
            aside.mkdir()
            for path in left:
                path.rename(aside / path.name)
    finally:
        held.close()


def _is_ours(name: str) -> bool:
    """Whether this is something that an opening lays out."""
    files = ("journal.", "record.", "run.", ASIDE)
    folders = ("blobs", "competition", "vault", "homes", "spool", "secrets", "reports", lock.FILE_NAME)
    return name in folders or name.startswith(files)


def _refuse_without_run_file(folder: RunFolder) -> None:
    """A run that was ever served has its `run.toml`; if that is gone, the run isn't to be moved out of the way."""
    tail = Tail(folder.path)
    try:
        served = any(row.kind == ServerStarted.__name__ for row in tail.rows())
    finally:
        tail.close()
    if served:
        raise Broken(
            f"{folder.path} holds the journal of a run, but its {folder.run_file.name} is gone; put that back from a backup",
            retry=False,
        )


def open_folder(folder: RunFolder, source: Source, run: str, at: Moment, isolation: str) -> OpenRun:
    """Lay the run's folder out and say how it opens. `run.toml` is not written yet: see `finish_opening`."""
    rules = source.rules
    folder.make()
    terms = source.folder / "terms.md"
    frozen = {"competition.toml": source.public, "exam.py": (source.folder / rules.exam.program).read_bytes()}
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
    if source.public != source.text:
        folder.write_secret(NAMED, source.text)
    seed = secrets.token_hex(32)
    folder.write_secret(SEED, seed.encode())
    corners = [chr(ord("A") + index) for index in range(len(rules.entrants))]
    folder.write_secret(
        TOKENS, msgspec.json.encode({corner: secrets.token_urlsafe(24) for corner in corners})
    )
    salts = {rule.alias: secrets.token_hex(16) for rule in rules.entrants if rule.alias}
    folder.write_secret(SALTS, msgspec.json.encode(salts))
    return OpenRun(
        actor="server",
        key=None,
        run=run,
        rules=rules,
        start=rules.stages.start if rules.stages.start is not None else at,
        competition=_digest(source.public),
        terms=_digest(frozen["terms.md"]),
        exam_program=_digest(frozen["exam.py"]),
        base=Digest(digest_folder(source.folder / rules.base.path)),
        exam_seed_commitment=commitment(seed),
        isolation=isolation,
        sealed_names=seal_names(rules, salts),
    )


def finish_opening(folder: RunFolder, source: Source, run: str) -> None:
    """Mark the folder as a whole run, once RunOpened is durable."""
    base = str((source.folder / source.rules.base.path).resolve())
    folder.write(RunFile(run, str(source.file), base, __version__))


def refuse_edited(folder: RunFolder, file: RunFile, opened: Digest) -> None:
    """A competition file that changed since the run opened is refused: rules change by recorded events only."""
    source = Path(file.source)
    if source.is_file() and _public_digest(source.read_bytes()) != opened:
        named = folder.secrets / NAMED
        kept = named if named.exists() else folder.competition / "competition.toml"
        raise Refusal(
            "competition_edited",
            f"{source} was edited since {folder.path} opened, and a run's rules don't change by editing: put the file "
            f"back (it is kept as {kept}), or open a new run under another name",
        )


def refuse_other(folder: RunFolder, file: RunFile, source: Source, opened: Digest) -> None:
    """A run goes on with its own competition; another one that is given with its name is a mistake."""
    if _digest(source.public) != opened:
        raise Refusal(
            "other_competition",
            f"{folder.path} was opened with {file.source}, and {source.file} is another competition; "
            "give --run another name to open a new run",
        )


def _public_digest(text: bytes) -> Digest | None:
    """The digest that is on the record for this text; None when it can't be any competition's."""
    try:
        return _digest(public_text(text))
    except (ValueError, BadInput):
        return None


def _digest(data: bytes) -> Digest:
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())
