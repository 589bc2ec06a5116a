"""Checks what lies beside the journal: bodies by digest, steps by number and files as they were frozen in, findings out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from palestra.events.runs import RunOpened
from palestra.events.spend import CallCharged
from palestra.journal.record import RecordReader
from palestra.ports import StepRow
from palestra.rules.errors import Broken, Corrupt
from palestra.rules.units import Digest
from palestra.runtime.folder import RunFolder


class Check(msgspec.Struct, frozen=True):
    """One thing that was checked, and what was found."""

    name: str
    ok: bool
    found: str


def check_bodies(record: RecordReader, digests: Mapping[Digest, int]) -> Check:
    """Every body that an event names is there and is what its digest says. No event erases one so far."""
    for digest, seq in digests.items():
        try:
            record.open(digest)  # which computes the digest
        except KeyError:
            return Check("bodies", False, f"row {seq} names {digest}, which isn't on the record")
        except (Broken, Corrupt, TypeError) as error:  # a damaged page may give back another type
            return Check("bodies", False, f"row {seq} names {digest}, and {error}")
    return Check("bodies", True, f"{len(digests)} bodies agree with their digests")


def check_steps(record: RecordReader, charges: Iterable[tuple[int, CallCharged]]) -> Check:
    """Each call's steps are there, under its numbers, and their bodies with them. Steps that no row names do no harm."""
    known: dict[str, dict[int, StepRow]] = {}
    checked = 0
    for seq, charge in charges:
        try:
            if charge.corner not in known:
                known[charge.corner] = {step.n: step for step in _steps(record, charge.corner)}
            for n in range(charge.first_step, charge.first_step + charge.steps):
                step = known[charge.corner].get(n)
                if step is None or step.call != charge.call:
                    return Check(
                        "steps",
                        False,
                        f"row {seq} names step {n} of {charge.call}, which isn't on the record",
                    )
                record.open(step.digest)
                checked += 1
        except KeyError:
            return Check("steps", False, f"step {n} of {charge.call} has no body")
        except (Broken, Corrupt, TypeError) as error:
            return Check("steps", False, f"the steps of {charge.call} can't be read: {error}")
    return Check("steps", True, f"{checked} steps of calls are there, in their order")


def _steps(record: RecordReader, corner: str) -> Iterable[StepRow]:
    after = 0
    while page := record.steps(corner, after):
        yield from page
        after = page[-1].n


def check_files(folder: RunFolder, opened: RunOpened) -> Check:
    """The competition's files that the run works with are still those it opened with."""
    wanted = {
        "competition.toml": opened.competition,
        "terms.md": opened.terms,
        "exam.py": opened.exam_program,
    }
    for name, digest in wanted.items():
        path = folder.competition / name
        if file_digest(path) != digest:
            return Check("files", False, f"{path} isn't the file that the run opened with, {digest}")
    return Check("files", True, f"{', '.join(wanted)} are those that the run opened with")


def file_digest(path: Path) -> Digest | None:
    """sha256 of a file; None when it can't be read."""
    try:
        return Digest("sha256:" + hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError:
        return None
