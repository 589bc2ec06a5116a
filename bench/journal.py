"""The journal: commits in groups against one by one, and folding against decoding alone. Run by `./dev bench journal`.

Both kinds of commit write the same rows, durably, to the same disk, by turns. With 100 waiters each has one row under way
and hands in the next once it is answered. Decoding means from the journal's file to events, as a start does it; folding
goes on from there to the state. Both take the same pages, by turns. What they cost from rows already in memory is shown
too, without a goal. The rows are a competition's usual mixture: model calls, and now and then a job. Commits are timed by
the clock, as syncs are what they wait for; decoding and folding by CPU time. No other program is measured here: the
ratios are between our own two ways.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import msgspec

from palestra.events.base import Event
from palestra.events.codec import Row, read_entry, write_row
from palestra.events.corners import EntrantSeated
from palestra.events.jobs import AttemptEnded, AttemptStarted, JobEnded, JobSpec, JobSubmitted, WaitChanged
from palestra.events.spend import CallCharged, CallReserved
from palestra.journal.chain import check_chain, walk
from palestra.journal.filesystem import MOUNTINFO, find_mount, read_mounts
from palestra.journal.memory import MemoryJournal, MemoryRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.writer import Writer
from palestra.rules.prices import Usage
from palestra.rules.units import GIB, HOUR, Bytes, GpuMicros, Micros, Moment, NanoDollars
from palestra.state.arena import State
from palestra.state.fold import fold

PERFORMANCE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench journal: begin -->", "<!-- bench journal: end -->"
GROUPED, FOLDED = "rows/s with 100 waiters over one by one", "decoding and folding over decoding"
GOALS = {GROUPED: 50.0, FOLDED: 2.0}
WAITERS = 100
CORNERS = "ABCDEFGH"
CALLS_PER_JOB = 20
CHUNK, PAGE = 50_000, 1000  # rows
MORE_GROUPED = 50
Commit = Callable[[Writer, list[Row]], float]
SPEC = JobSpec(
    name="sft",
    argv=("python", "train.py"),
    gpus=1,
    memory=Bytes(16 * GIB),
    limit=Micros(HOUR),
    outputs=("out",),
)


def usual_events() -> Iterator[Event]:
    """What a competition writes, without end."""
    for corner in CORNERS:
        credit, time_allowed = NanoDollars(10**18), GpuMicros(10**18)
        yield EntrantSeated(corner, f"Agent {corner}", "", "house", "large", credit, time_allowed)
    for n, corner in zip(itertools.count(1), itertools.cycle(CORNERS)):
        call = f"{corner}-c{n}"
        usage = Usage(fresh_input=900 + n % 700, cached_input=20_000, output=n % 900)
        yield CallReserved(call, corner, "large", NanoDollars(90_000_000), 24_000, 8192, None)
        yield CallCharged(call, corner, NanoDollars(31_000_000 + n), usage, False, 200, "tool_calls", steps=2)
        if n % CALLS_PER_JOB == 0:
            yield from one_job(corner, n)


def one_job(corner: str, n: int) -> Iterator[Event]:
    job = f"{corner}-j{n}"
    attempt, gpus, hour = f"{job}.1", (n % 8,), Micros(HOUR)
    yield JobSubmitted(job, corner, SPEC)
    yield WaitChanged(job, corner, "memory", (f"{CORNERS[0]}-j{n - 1}",))
    yield AttemptStarted(attempt, job, corner, "node1", gpus, SPEC.memory, hour, GpuMicros(HOUR))
    yield AttemptEnded(
        attempt, job, corner, "completed", "none", "", 0, Moment(n), Moment(n + 9), GpuMicros(9)
    )
    yield JobEnded(job, corner, "completed", "none", 1)


def usual_rows(count: int) -> Iterator[Row]:
    seq, digest = MemoryJournal("bench").head()
    for event in itertools.islice(usual_events(), count):
        seq += 1
        row = write_row(digest, seq, Moment(seq), "A", None, None, event)
        digest = row.digest
        yield row


def commit_one_by_one(writer: Writer, rows: list[Row]) -> float:
    """Rows a second: each waits for the one before it to be durable."""
    begin = time.perf_counter()
    for row in rows:
        writer.submit([row]).result()
    return len(rows) / (time.perf_counter() - begin)


def commit_with_waiters(writer: Writer, rows: list[Row]) -> float:
    """Rows a second: a hundred wait at once, and each hands in its next row when it is answered."""
    answered = threading.Semaphore(WAITERS)

    def answer(done: Future[None]) -> None:
        answered.release()

    last: Future[None] = Future()
    begin = time.perf_counter()
    for row in rows:
        answered.acquire()
        last = writer.submit([row])
        last.add_done_callback(answer)
    last.result()
    return len(rows) / (time.perf_counter() - begin)


def measure_commits(place: Path, rounds: int, count: int) -> tuple[list[float], list[float]]:
    """Rows a second (with waiters, one by one), a pair a round. The rows are made before the clock starts."""
    rates: dict[Commit, list[float]] = {commit_with_waiters: [], commit_one_by_one: []}
    source = usual_rows(1 << 40)
    with (
        closing(SqliteJournal(place, "bench")) as journal,
        closing(Writer(journal, MemoryRecord())) as writer,
    ):
        for turn in range(rounds + 1):
            for commit, kept in rates.items():
                wanted = count if commit is commit_one_by_one else count * MORE_GROUPED
                rows = list(itertools.islice(source, wanted if turn else wanted // 10))
                rate = commit(writer, rows)
                if turn:  # the first turn warms caches
                    kept.append(rate)
    return rates[commit_with_waiters], rates[commit_one_by_one]


class Folding(msgspec.Struct):
    """CPU seconds for all rows of a journal."""

    decoding: float = 0.0
    both: float = 0.0
    decoding_in_memory: float = 0.0
    both_in_memory: float = 0.0
    start: float = 0.0


def measure_folding(place: Path, count: int) -> Folding:
    """Decoding alone and decoding with folding, a chunk of each by turns; then a start with the chain checked."""
    taken, read, held = Folding(), State(), State()
    with closing(SqliteJournal(place, "bench")) as journal:
        source = usual_rows(count)
        while chunk := list(itertools.islice(source, PAGE)):
            journal.append(chunk)
        for after in range(0, count, CHUNK):
            pages = range(after, min(after + CHUNK, count), PAGE)
            times = [time.process_time()]
            for page in pages:
                for row in journal.read(page, PAGE):
                    read_entry(row)
            times.append(time.process_time())
            for page in pages:
                for row in journal.read(page, PAGE):
                    fold(read, read_entry(row))
            times.append(time.process_time())
            chunk = journal.read(after, CHUNK)
            times.append(time.process_time())
            for row in chunk:
                read_entry(row)
            times.append(time.process_time())
            for row in chunk:
                fold(held, read_entry(row))
            times.append(time.process_time())
            taken.decoding += times[1] - times[0]
            taken.both += times[2] - times[1]
            taken.decoding_in_memory += times[4] - times[3]
            taken.both_in_memory += times[5] - times[4]
        taken.start = measure_start(journal)
    if (read.seq, held.seq) != (count, count):
        raise SystemExit(f"{count} events were folded, but the states are at {read.seq} and {held.seq}")
    return taken


def measure_start(journal: SqliteJournal) -> float:
    """CPU seconds of a whole start: read, check the chain, decode, fold."""
    begin, state = time.process_time(), State()
    for row in check_chain(walk(journal), "bench"):
        fold(state, read_entry(row))
    return time.process_time() - begin


def tell(place: Path, count: int, grouped: list[float], single: list[float], taken: Folding) -> str:
    """The table, in Markdown."""
    kind = find_mount(str(place), read_mounts(MOUNTINFO.read_text())) if MOUNTINFO.exists() else None
    disk = kind.kind if kind else "an unknown file system"
    many, one = statistics.median(grouped), statistics.median(single)
    seconds = msgspec.structs.replace(
        taken, **{name: value * 1e6 / count for name, value in msgspec.structs.asdict(taken).items()}
    )
    lines = [
        f"Commits on {disk}, medians of {len(single)} rounds; CPU seconds per 1,000,000 events, from {count:,}.",
        "",
        "| what | measured | ratio | goal |",
        "|---|---|---|---|",
        f"| rows committed one by one | {one:,.0f}/s ({1000 / one:.2f} ms each) | | |",
        f"| rows committed with {WAITERS} waiters | {many:,.0f}/s | {many / one:.1f}x | at least {GOALS[GROUPED]:.0f}x |",
        f"| decoding the journal's file | {seconds.decoding:.2f} s | | |",
        f"| decoding and folding it | {seconds.both:.2f} s | {taken.both / taken.decoding:.2f}x"
        f" | at most {GOALS[FOLDED]:.0f}x |",
        f"| decoding rows in memory | {seconds.decoding_in_memory:.2f} s | | |",
        f"| decoding and folding them | {seconds.both_in_memory:.2f} s"
        f" | {taken.both_in_memory / taken.decoding_in_memory:.2f}x | |",
        f"| a start: reading, checking the chain, decoding, folding | {seconds.start:.2f} s | | |",
    ]
    return "\n".join(lines)


def put_into(text: str, section: str) -> str:
    """The page with its journal section replaced, or added at its end."""
    marked = f"{BEGIN}\n## Journal\n\n{section}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    if not begin:
        return f"{text.rstrip() or '# Performance'}\n\n{marked}"
    return before + marked + rest.partition(END)[2].removeprefix("\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--commits", type=int, default=500, help="one by one in each round; 50 times as many rows in groups"
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, help="where to work; the disk that is measured")
    parser.add_argument("--dry", action="store_true", help="leave docs/performance.md alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as made:
        place = Path(made).resolve()
        (place / "start").mkdir()
        grouped, single = measure_commits(place, given.rounds, given.commits)
        taken = measure_folding(place / "start", given.events)
        table = tell(place, given.events, grouped, single, taken)
    print(table)
    if not given.dry:
        old = PERFORMANCE.read_text() if PERFORMANCE.exists() else ""
        PERFORMANCE.write_text(put_into(old, table))
    ratios = {
        GROUPED: round(statistics.median(grouped) / statistics.median(single), 1),
        FOLDED: round(taken.both / taken.decoding, 2),
    }
    met = ratios[GROUPED] >= GOALS[GROUPED] and ratios[FOLDED] <= GOALS[FOLDED]
    print(json.dumps({"bench": "journal", "ratios": ratios, "goals": GOALS, "met": met}))


if __name__ == "__main__":
    main()
