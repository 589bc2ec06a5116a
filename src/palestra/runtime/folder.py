"""One run on disk: every path below `runs/NAME`, and the short folder for its sockets."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from palestra.rules.errors import BadInput, Broken


class RunFile(msgspec.Struct, frozen=True):
    """`run.toml`: what this folder is, for people and for the next start."""

    run: str
    """The run's id; the digest chain begins with it."""
    source: str
    """The competition file that it was opened with."""
    base: str
    """Absolute path of the base model."""
    release: str


class RunFolder:
    """Where everything of a run lies."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.run_file = self.path / "run.toml"
        self.journal = self.path / "journal.db"
        self.record = self.path / "record.db"
        self.lock = self.path / "lock"
        self.competition = self.path / "competition"
        """The competition's files as they were when the run opened."""
        self.vault = self.path / "vault"
        self.homes = self.path / "homes"
        self.spool = self.path / "spool"
        self.secrets = self.path / "secrets"
        self.reports = self.path / "reports"
        self.arena = self.path / "spool" / "bin" / "arena"
        """The client that agents call, built when the server starts."""

    @property
    def exists(self) -> bool:
        """A run was opened here."""
        return self.run_file.exists()

    def make(self) -> None:
        """All folders of a new run; secrets are for the owner only."""
        for folder in (self.path, self.competition, self.vault, self.homes, self.spool, self.reports):
            folder.mkdir(parents=True, exist_ok=True)
        self.secrets.mkdir(mode=0o700, exist_ok=True)

    def read(self) -> RunFile:
        """`run.toml`; `BadInput` when the folder isn't a run."""
        import tomllib

        if not self.exists:
            right = "a run's folder, made by `palestra run`, has a run.toml; this one hasn't"
            raise BadInput("run", str(self.path), right)
        try:
            return msgspec.convert(tomllib.loads(self.run_file.read_text()), RunFile)
        except (ValueError, msgspec.ValidationError) as error:
            right = f"put it back as it was: {error}"
            raise BadInput("run.toml", str(self.run_file), right) from None

    def write(self, file: RunFile) -> None:
        """Write `run.toml` in one step, last of all: a folder with it is a whole one."""
        lines = [
            f"{field} = {msgspec.json.encode(getattr(file, field)).decode()}"
            for field in file.__struct_fields__
        ]
        draft = self.run_file.with_suffix(".draft")
        with draft.open("w") as out:
            out.write("\n".join(["# Written by palestra run; don't edit.", *lines, ""]))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self.run_file)
        _sync(self.path)

    def write_secret(self, name: str, data: bytes) -> None:
        """A secret in one step: readable by the owner only, from its first byte; on the disk when this returns."""
        draft = self.secrets / f".{name}.draft"
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self.secrets / name)
        _sync(self.secrets)

    def read_secret(self, name: str) -> bytes:
        """A secret, refused when others may read it."""
        path = self.secrets / name
        if path.stat().st_mode & 0o077:
            raise Broken(f"others can read {path}, which is secret; run: chmod 600 {path}", retry=False)
        return path.read_bytes()

    def sockets(self) -> Path:
        """A folder whose path is short enough for unix sockets, ours alone.

        The same after every restart and from every shell, whatever its TMPDIR: agents that outlived a server find the next.
        """
        name = hashlib.sha256(str(self.path).encode()).hexdigest()[:12]
        place, link = temporary_root() / name, self.spool / "sockets"
        with suppress(OSError):  # a run that isn't laid out yet, or isn't ours to change
            if link.is_symlink() and link.readlink().name != name:
                link.unlink()  # of the folder that this one was copied from
            if not link.is_symlink():
                link.symlink_to(place)
            place = link.readlink()
        _make_ours(place.parent)
        return _make_ours(place)

    def corner_socket(self, corner: str) -> Path:
        """The one door of a corner; its folder, not the socket, is what a sandbox binds."""
        folder = self.sockets() / corner
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / "arena.sock"

    @property
    def control_socket(self) -> Path:
        """The organiser's door."""
        return self.sockets() / "control.sock"


def temporary_root() -> Path:
    """Where the sockets of this user's new runs lie."""
    return Path(tempfile.gettempdir()) / f"palestra-{os.getuid()}"


def check_temporary_root() -> None:
    """`Broken` when no sockets could be made there."""
    _make_ours(temporary_root())


def _make_ours(folder: Path) -> Path:
    """A folder that only this user can enter; `Broken` when something else is there: who owns it could answer for us."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise Broken(
            f"no folder for sockets can be made at {folder}: {error.strerror}; set TMPDIR to a folder that you can write",
            retry=False,
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Broken(
            f"{folder} must be a folder of yours that nobody else can enter (mode 0700), as sockets are made there; "
            "remove it and start again",
            retry=False,
        )
    return folder


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def digest_folder(folder: Path) -> str:
    """sha256 over the names and contents of all files below a folder, in sorted order."""
    state = hashlib.sha256()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        state.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as data:
            state.update(hashlib.file_digest(data, "sha256").digest())
    return "sha256:" + state.hexdigest()
