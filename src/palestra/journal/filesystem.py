"""Which file system a folder lies on, and whether a journal may: the text of mountinfo in, a reason against it or nothing out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palestra.rules.errors import Broken

MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")

_NETWORK = "locks and synced writes can't be relied on over a network"
_LAYERED = "a layered file system can swap a file under an open lock, and goes when its container goes"
_FOREIGN = "whether locks and synced writes hold is up to the program or host behind it"
OBJECTIONS: dict[str, str] = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "coda", "ncpfs"), _NETWORK),
    **dict.fromkeys(
        ("lustre", "gpfs", "beegfs", "panfs", "orangefs", "pvfs2", "wekafs", "gfs2", "ocfs2"), _NETWORK
    ),
    **dict.fromkeys(("overlay", "overlayfs", "aufs", "unionfs"), _LAYERED),
    **dict.fromkeys(("9p", "virtiofs", "vboxsf", "prl_fs", "fuse"), _FOREIGN),
}
"""File system types that can't hold a journal, each with the reason."""


class Mount(msgspec.Struct, frozen=True):
    """One line of mountinfo, as far as it matters here."""

    id: int
    parent: int
    point: str
    kind: str
    source: str


def read_mounts(mountinfo: str) -> list[Mount]:
    """The mounts in the text of `/proc/<pid>/mountinfo` (proc_pid_mountinfo(5)); lines of another form are passed over."""
    mounts = []
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if separator and len(fields) >= 6 and len(rest) >= 2 and fields[0].isdigit() and fields[1].isdigit():
            source = _unescape(rest[1])
            mounts.append(Mount(int(fields[0]), int(fields[1]), _unescape(fields[4]), rest[0], source))
    return mounts


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute, resolved path lies on; None when the list doesn't say.

    The kernel goes down from the root and enters whatever is mounted on each folder it passes. So a mount that
    was hidden by a later one higher up is never found, however well its point matches.
    """
    ids = {mount.id for mount in mounts}
    here: Mount | None = None
    inside = [mount for mount in mounts if mount.parent not in ids or mount.parent == mount.id]
    while inside := [mount for mount in inside if _below(path, mount.point)]:
        here = min(inside, key=lambda mount: len(mount.point))
        inside = [mount for mount in mounts if mount.parent == here.id and mount.id != here.id]
    return here


def objection(kind: str) -> str | None:
    """Why a file system of this type can't hold a journal; None when it can."""
    return OBJECTIONS.get("fuse" if kind.startswith("fuse.") else kind)


def refuse_unfit(folder: Path, mountinfo: str | None = None) -> None:
    """`Broken` when the folder's file system can't hold a journal. Says nothing where mounts can't be listed, as on macOS."""
    if mountinfo is None:
        if not MOUNTINFO.exists():
            return
        mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
    mount = find_mount(str(folder.resolve()), read_mounts(mountinfo))
    why = objection(mount.kind) if mount else None
    if mount and why:
        raise Broken(
            f"{folder}: a journal can't lie on {mount.kind} (mounted at {mount.point}): {why};"
            " choose a folder on a local disk",
            retry=False,
        )


def _below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")


def _unescape(field: str) -> str:
    """Spaces, tabs, line ends and backslashes are written as three octal digits."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)
