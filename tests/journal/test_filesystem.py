"""Which file systems may hold a journal, told from the text of mountinfo."""

from pathlib import Path

import pytest

from palestra.journal.filesystem import find_mount, objection, read_mounts, refuse_unfit
from palestra.rules.errors import Broken

HOST = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw,nosuid - proc proc rw
24 22 0:40 / /home rw - nfs4 server:/export/home rw,vers=4.2
25 24 0:41 / /home/local\040disk rw - xfs /dev/sdb1 rw
26 22 0:42 / /scratch rw shared:7 master:3 - lustre 10.0.0.1@tcp:/scratch rw
27 22 8:2 / /data rw - btrfs /dev/sdc1 rw
28 22 0:50 / /data/cloud rw - fuse.sshfs host: rw
29 27 0:51 / /data/kept rw - ext4 /dev/sdd1 rw
30 27 0:52 / /data rw - tmpfs tmpfs rw
""".strip()
CONTAINER = """
500 400 0:99 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
501 500 0:5 / /proc rw - proc proc rw
502 500 8:1 /volumes/runs /runs rw - ext4 /dev/sda1 rw
""".strip()


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/var/runs", "/", "ext4"),
        ("/home/ann/runs", "/home", "nfs4"),
        ("/home", "/home", "nfs4"),
        ("/homework", "/", "ext4"),
        ("/home/local disk/runs", "/home/local disk", "xfs"),
        ("/scratch/x", "/scratch", "lustre"),
        ("/data/x", "/data", "tmpfs"),  # the later mount on the same folder covers the earlier
        ("/data/kept/x", "/data", "tmpfs"),  # and with it what was mounted inside
        ("/data/cloud/x", "/data", "tmpfs"),  # whichever of the two was listed first
    ],
)
def test_the_mount_a_path_lies_on(path: str, point: str, kind: str) -> None:
    mount = find_mount(path, read_mounts(HOST))
    assert mount is not None
    assert (mount.point, mount.kind) == (point, kind)


def test_a_container_is_layered_but_its_volumes_are_not() -> None:
    inside, volume = (find_mount(path, read_mounts(CONTAINER)) for path in ("/root/runs", "/runs/r1"))
    assert inside and inside.kind == "overlay"
    assert volume and volume.kind == "ext4"


def test_a_list_without_a_root_says_nothing_of_paths_it_does_not_hold() -> None:
    mounts = read_mounts("502 500 8:1 / /runs rw - ext4 /dev/sda1 rw\nnonsense\n1 2 - \n")
    assert find_mount("/elsewhere", mounts) is None
    assert len(mounts) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "lustre",
        "overlay",
        "cifs",
        "ceph",
        "gpfs",
        "beegfs",
        "9p",
        "virtiofs",
        "fuse.sshfs",
        "fuse",
    ],
)
def test_unfit_file_systems_have_a_reason(kind: str) -> None:
    assert objection(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "f2fs", "fuseblk", "apfs"])
def test_local_file_systems_are_fit(kind: str) -> None:
    assert objection(kind) is None


@pytest.mark.parametrize(
    ("kind", "word"), [("nfs4", "network"), ("lustre", "network"), ("overlay", "layered")]
)
def test_the_refusal_names_folder_kind_reason_and_remedy(tmp_path: Path, kind: str, word: str) -> None:
    with pytest.raises(Broken) as refusal:
        refuse_unfit(tmp_path, f"22 1 8:1 / / rw - {kind} somewhere rw")
    said = str(refusal.value)
    assert str(tmp_path) in said and kind in said and word in said and "local disk" in said
    assert not refusal.value.retry


def test_a_fit_folder_is_let_through(tmp_path: Path) -> None:
    refuse_unfit(tmp_path, "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
    link = tmp_path / "link"
    link.symlink_to("/scratch")
    with pytest.raises(Broken, match="lustre"):
        refuse_unfit(link / "run", HOST)
