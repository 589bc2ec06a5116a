"""A whole report against Altair drawing the same four charts: run by `./dev bench report`.

Ours is `palestra report`: start, read and check the journal, fold, detect, draw four charts, write the page. Theirs starts,
reads the same figures from a JSON file, and draws nominations, budgets, ends and waits to SVG. Both by turns, in processes of
their own; CPU is user and system time of the whole process, as the kernel counts it. A longer season shows how ours grows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.building import START, Rehearsal, competition  # noqa: E402  found beside this folder
from tests.report.folders import write_run  # noqa: E402
from tests.report.pocket import pocket  # noqa: E402

from palestra.events.codec import Row  # noqa: E402
from palestra.report.facts import Facts  # noqa: E402
from palestra.report.window import Asked  # noqa: E402
from palestra.rules.competition import EntrantRule  # noqa: E402
from palestra.rules.prices import Usage  # noqa: E402
from palestra.rules.units import DOLLAR, HOUR, MINUTE, Moment  # noqa: E402
from palestra.runtime.reports import read_facts  # noqa: E402

PERFORMANCE = ROOT / "docs" / "performance.md"
PEER = ROOT / "build" / "bench" / "altair"
PACKAGES = ("altair==6.3.0", "vl-convert-python==1.9.0")
BEGIN, END = "<!-- bench report: begin -->", "<!-- bench report: end -->"
OURS, LONG, PEERS = "palestra report", "palestra report, a long season", "Altair, the four charts"
WARM = ", once more in the same process"
GOAL = 0.1
WRITE = """
import sys, time
from pathlib import Path
from palestra.report.window import Asked
from palestra.runtime.folder import RunFolder
from palestra.runtime.reports import write_report
for turn in range(3):
    begun = time.process_time()
    write_report(RunFolder(Path(sys.argv[1])), Asked(), Path(sys.argv[2]) / "warm.html")
print(time.process_time() - begun)
"""
DRAW = """
import json, sys, time
import altair as alt
for turn in range(int(sys.argv[3])):
    begun = time.process_time()
    data = json.load(open(sys.argv[1]))
    marks = alt.Chart(alt.Data(values=data["nominations"])).mark_point(filled=True, size=90).encode(
        x=alt.X("at:Q", title="minutes"), y=alt.Y("name:N", title=None), color="kind:N", shape="kind:N")
    spans = alt.Chart(alt.Data(values=data["nominations"])).mark_bar(height=8, opacity=0.4).encode(x="at:Q", x2="kept:Q", y="name:N")
    bars = alt.Chart(alt.Data(values=data["budgets"])).mark_bar().encode(
        x=alt.X("share:Q", title="per cent used"), y=alt.Y("name:N", sort="-x", title=None), column="what:N")
    ends = alt.Chart(alt.Data(values=data["jobs"])).mark_bar().encode(
        x=alt.X("count():Q", title="jobs"), y=alt.Y("name:N", title=None), color="end:N")
    waits = alt.Chart(alt.Data(values=data["jobs"])).transform_filter("datum.waited > 0").mark_bar().encode(
        x=alt.X("waited:Q", title="seconds"), y=alt.Y("job:N", sort="-x", title=None))
    (marks + spans).properties(width=760, height=220).save(sys.argv[2] + "/nominations.svg")
    bars.properties(width=340, height=200).save(sys.argv[2] + "/budgets.svg")
    ends.properties(width=760, height=200).save(sys.argv[2] + "/ends.svg")
    waits.properties(width=760, height=200).save(sys.argv[2] + "/waits.svg")
print(time.process_time() - begun)
"""


def season(calls: int) -> list[Row]:
    """Eight entrants over six days, so many model calls, a job for each forty of them, a nomination a day."""
    entrants = tuple(EntrantRule(f"Agent {number}", model="small") for number in range(1, 9))
    run = Rehearsal(
        competition(running=144 * HOUR, api_credit=300 * DOLLAR, gpu_time=1_000 * HOUR, entrants=entrants)
    )
    step = 143 * HOUR // (calls + 1)
    for number in range(calls):
        corner = "ABCDEFGH"[number % 8]
        run.at = Moment(START + (number + 1) * step)
        run.answer(run.reserve(corner), Usage(fresh_input=900, output=400))
        if number % 40 == 0:
            run.exit(run.submit(corner, limit=20 * MINUTE), number % 3 and 1, ran=10 * MINUTE)
        if number % (calls // 48) == 0:
            run.accept(run.nominate(corner, f"w{number}"))
    return run.rows


def figures(facts: Facts) -> dict[str, list[dict[str, object]]]:
    """What the peer draws: the same figures."""
    names = {seat.corner: seat.name for seat in facts.corners}
    marks = [
        {"name": names[one.corner], "kind": one.kind, "at": (one.requested.at - facts.start) / MINUTE,
         "kept": ((one.copied or one.requested).at - facts.start) / MINUTE}
        for one in facts.nominations
    ]  # fmt: skip
    bars = [
        {"name": seat.name, "what": what, "share": 100 * one.spent / one.limit}
        for seat in facts.corners for what, one in (("API credit", seat.api), ("GPU-time", seat.gpu)) if one
    ]  # fmt: skip
    jobs = [
        {"name": names[job.corner], "job": job.job, "end": job.end or "open", "waited": job.waited / 1_000_000}
        for job in facts.jobs
    ]  # fmt: skip
    return {"nominations": marks, "budgets": bars, "jobs": jobs}


def spend(argv: list[str], cache: Path) -> float:
    """CPU seconds of one run, with compiled modules kept between runs, as where it is installed."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(cache)
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1)])
    _, status, used = os.wait4(pid, 0)
    os.close(quiet)
    if status:
        raise SystemExit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def spend_warm(argv: list[str]) -> float:
    """CPU seconds of the third report in one process, by its own account."""
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def peer_python() -> Path:
    """Its own environment, made once."""
    python = PEER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--calls", type=int, default=20_000, help="model calls of the long season (default 20000)"
    )
    parser.add_argument("--dry", action="store_true", help="leave docs/performance.md alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        times, rows = run(Path(place), given.rounds, given.calls)
    medians = {name: statistics.median(values) for name, values in times.items()}
    table = tell(medians, rows, given.rounds)
    print(table)
    if not given.dry:
        old = PERFORMANCE.read_text() if PERFORMANCE.exists() else ""
        PERFORMANCE.write_text(put_into(old, table))
    ratios = {
        "CPU of the whole process": round(medians[OURS] / medians[PEERS], 3),
        "CPU once more": round(medians[OURS + WARM] / medians[PEERS + WARM], 3),
    }
    goals = dict.fromkeys(ratios, GOAL)
    met = all(ratios[name] <= goals[name] for name in goals)
    print(json.dumps({"bench": "report", "ratios": ratios, "goals": goals, "met": met}))


def run(place: Path, rounds: int, calls: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    short, long = pocket(), season(calls)
    folder, longer = write_run(place / "short", short), write_run(place / "long", long)
    (place / "draw.py").write_text(DRAW)
    (place / "data.json").write_text(json.dumps(figures(read_facts(folder, Asked()))))
    python = str(peer_python())
    candidates = {
        OURS: [
            sys.executable,
            "-m",
            "palestra",
            "report",
            str(folder.path),
            "--out",
            str(place / "report.html"),
        ],
        PEERS: [python, str(place / "draw.py"), str(place / "data.json"), str(place), "1"],
        LONG: [
            sys.executable,
            "-m",
            "palestra",
            "report",
            str(longer.path),
            "--out",
            str(place / "long.html"),
        ],
    }
    (place / "write.py").write_text(WRITE)
    warm = {
        f"{OURS}{WARM}": [sys.executable, str(place / "write.py"), str(folder.path), str(place)],
        f"{PEERS}{WARM}": [python, str(place / "draw.py"), str(place / "data.json"), str(place), "3"],
    }
    times: dict[str, list[float]] = {name: [] for name in (*candidates, *warm)}
    for turn in range(rounds + 1):
        for name, argv in candidates.items():
            spent = spend(argv, place / "cache")
            if turn:  # the first turn warms caches
                times[name].append(spent)
        for name, argv in warm.items() if turn else ():
            times[name].append(spend_warm(argv))
    return times, {OURS: len(short), LONG: len(long)}


def tell(medians: dict[str, float], rows: dict[str, int], rounds: int) -> str:
    """The table, in Markdown."""
    lines = [
        f"CPU of whole processes, or of one more report in a process that has made two; medians of {rounds} rounds.", "",
        "| what | rows | CPU s | against Altair | goal |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, peer in (
        (OURS, PEERS),
        (LONG, PEERS),
        (PEERS, ""),
        (OURS + WARM, PEERS + WARM),
        (PEERS + WARM, ""),
    ):
        share = f"{medians[name] / medians[peer]:.2f}x" if peer else ""
        goal = f"at most {GOAL:g}x" if peer and name != LONG else ""
        count = f"{rows[name]:,}" if name in rows else ""
        lines.append(f"| {name} | {count} | {medians[name]:.2f} | {share} | {goal} |")
    return "\n".join(lines)


def put_into(text: str, section: str) -> str:
    """The page with the section of this measurement replaced, or added at its end."""
    marked = f"{BEGIN}\n## Reports\n\n{section}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    if not begin:
        return f"{text.rstrip() or '# Performance'}\n\n{marked}"
    return before + marked + rest.partition(END)[2].removeprefix("\n")


if __name__ == "__main__":
    main()
