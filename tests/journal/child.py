"""A process to be killed, starved or kept out: `child.py VERB FOLDER ...`, told what to do by the tests beside it.

Lines on standard output say how far it got; each is written only after what it tells is true.
"""

import itertools
import json
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path

from palestra.events.runs import AlarmRaised
from palestra.journal.bodies import digest_of
from palestra.journal.chain import check_chain, walk, write_rows
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.writer import Writer
from palestra.ports import StepRow
from palestra.rules.errors import Broken, PalestraError
from palestra.rules.units import Digest, Moment

RUN = "pocket"


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def hold(folder: Path) -> None:
    """Open the journal when told so, append as many rows as each line on standard input says, until it ends."""
    say("ready")
    sys.stdin.readline()
    try:
        journal = SqliteJournal(folder, RUN)
    except Broken as error:
        say(f"refused {error}")
        return
    with closing(journal):
        say("open")
        for line in sys.stdin:
            seq = journal.head()[0]
            events = [AlarmRaised(f"disk:{seq + n}", "x" * 1000) for n in range(int(line))]
            journal.append(write_rows(journal.head(), Moment(seq), "A", events))
            say(f"head {journal.head()[0]}")


def queue(folder: Path, count: int, turns: int) -> None:
    """Append `count` rows one by one, in `turns` turns, each turn waiting for the lock anew."""
    for _ in range(turns):
        with closing(SqliteJournal(folder, RUN, wait=True)) as journal:
            for _ in range(count // turns):
                seq = journal.head()[0]
                events = [AlarmRaised(f"process:{os.getpid()}", str(seq))]
                journal.append(write_rows(journal.head(), Moment(seq), str(os.getpid()), events))
    say("done")


def write(folder: Path) -> None:
    """Submit for ever, twenty at a time; say each submission's last row once it is acknowledged."""
    room = threading.Semaphore(20)
    with closing(SqliteJournal(folder, RUN)) as journal, closing(SqliteRecord(folder)) as record:
        head, n = journal.head(), journal.head()[0]
        writer = Writer(journal, record)
        say(f"open {head[0]}")
        for size in itertools.cycle((1, 3, 2, 7)):
            room.acquire()
            bodies = [f"body {head[0] + k}".encode() * 50 for k in range(size)]
            events = [AlarmRaised(digest_of(body), "named by digest") for body in bodies]
            rows = write_rows(head, Moment(n), "A", events)
            steps = [StepRow("A", row.seq, "A-c1", "tool", Digest(row.subject), Moment(n)) for row in rows]
            head = (rows[-1].seq, rows[-1].digest)

            def tell(done: Future[None], seq: int = head[0]) -> None:
                say(f"failed {done.exception()}" if done.exception() else f"acknowledged {seq}")
                room.release()

            writer.submit(rows, bodies, steps).add_done_callback(tell)


def fill(folder: Path, limit: int) -> None:
    """Write until the disk is full (or a file reaches `limit` bytes), make room, open again, go on; tell it as JSON."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(500_000))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    acknowledged, refused, errors = until_full(folder)
    # Opening it while the disk is still full may or may not work, but ends in a sentence and harms nothing.
    with suppress(Broken):
        SqliteJournal(folder, RUN).close()
    ballast.unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with closing(SqliteJournal(folder, RUN)) as journal, closing(SqliteRecord(folder)) as record:
        head = journal.head()[0]
        rows = list(check_chain(walk(journal), RUN))
        for row in rows:
            assert digest_of(record.open(Digest(row.subject))) == row.subject
        journal.append(write_rows(journal.head(), Moment(0), "A", [AlarmRaised("disk", "room again")]))
        story = {
            "acknowledged": acknowledged, "refused": refused, "errors": errors, "head": head, "rows": len(rows),
            "after": journal.head()[0],
        }  # fmt: skip
    say(json.dumps(story))


def until_full(folder: Path) -> tuple[list[int], list[int], list[str]]:
    """(last rows acknowledged, last rows refused, what was said), by submissions of five rows, four at a time."""
    chance = random.Random(1)
    acknowledged: list[int] = []
    refused: list[int] = []
    errors: list[str] = []
    with (
        closing(SqliteJournal(folder, RUN)) as journal,
        closing(SqliteRecord(folder)) as record,
        closing(Writer(journal, record)) as writer,
    ):
        head = journal.head()
        while not errors:
            waiting = []
            for _ in range(4):
                bodies = [chance.randbytes(200) for _ in range(5)]
                rows = write_rows(
                    head, Moment(0), "A", [AlarmRaised(digest_of(body), "x" * 800) for body in bodies]
                )
                head = (rows[-1].seq, rows[-1].digest)
                waiting.append((head[0], writer.submit(rows, bodies)))
            for seq, done in waiting:
                error = done.exception()
                (refused if error else acknowledged).append(seq)
                if error:
                    assert isinstance(error, PalestraError)
                    errors.append(f"{type(error).__name__}: {error}")
        late = writer.submit(rows).exception()
        errors.append(f"{type(late).__name__}: {late}")
    return acknowledged, refused, errors


if __name__ == "__main__":
    verb, place, *numbers = sys.argv[1:]
    verbs: dict[str, Callable[..., None]] = {"hold": hold, "queue": queue, "write": write, "fill": fill}
    verbs[verb](Path(place), *map(int, numbers))
