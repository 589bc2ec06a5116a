"""How much CPU a command takes before it can do anything, against an interpreter that does nothing: `./dev bench startup`.

`palestra --help`, and `arena status` as agents call it (the zipapp, answered over a unix socket by a stub in this process),
by turns with `python -c pass`. CPU is user and system time of the child alone, as the kernel counts it.
"""

from __future__ import annotations

import argparse
import json
import os
import socketserver
import statistics
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from palestra.client.build import build

PERFORMANCE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench startup: begin -->", "<!-- bench startup: end -->"
NOTHING, HELP, STATUS = "python -c pass", "palestra --help", "arena status"
ALLOWED = 0.3
"""CPU seconds."""
ANSWER: dict[str, object] = {
    "title": "The pocket arena", "corner": "A", "name": "Careful", "t": "T+0:01:23", "stage": "running", "left": "1 min",
    "api": {"shown": {"limit": "$0.50", "spent": "$0.12", "held": "$0.01", "left": "$0.37"}},
    "gpu": {"shown": {"limit": "0.50 GPU-h", "spent": "0.10 GPU-h", "held": "0 GPU-s", "left": "0.40 GPU-h"}},
    "jobs": {"queued": 1, "running": 0}, "nomination": None, "notices": [], "binding": "time", "isolation": "none",
}  # fmt: skip


class Stub(socketserver.ThreadingUnixStreamServer):
    """Gives everyone the same status."""

    daemon_threads = True


class Say(BaseHTTPRequestHandler):
    """One answer."""

    def do_GET(self) -> None:
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def spend(argv: list[str], env: dict[str, str]) -> float:
    """CPU seconds of one run."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, quiet, 1)]
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    os.close(quiet)
    if status:
        raise SystemExit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def measure(folder: Path, rounds: int) -> dict[str, list[float]]:
    arena, path = folder / "arena", folder / "arena.sock"
    build(arena)
    env = dict(os.environ) | {"PALESTRA_SOCKET": str(path), "PALESTRA_TOKEN": "token"}
    candidates = {
        NOTHING: [sys.executable, "-c", "pass"],
        HELP: [sys.executable, "-m", "palestra", "--help"],
        STATUS: [sys.executable, str(arena), "status"],
    }
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    with Stub(str(path), Say) as stub:
        threading.Thread(target=stub.serve_forever, daemon=True).start()
        for turn in range(rounds + 1):
            for name, argv in candidates.items():
                seconds = spend(argv, env)
                if turn:  # the first turn writes bytecode and warms caches
                    taken[name].append(seconds)
        stub.shutdown()
    return taken


def tell(taken: dict[str, list[float]]) -> str:
    """The table, in Markdown."""
    middle = {name: statistics.median(values) for name, values in taken.items()}
    lines = [
        f"Medians of {len(taken[NOTHING])} runs, Python {sys.version.split()[0]}.",
        "",
        "| what | CPU ms | against `python -c pass` | goal |",
        "|---|---|---|---|",
    ]
    for name, seconds in middle.items():
        goal = "" if name == NOTHING else f"at most {1000 * ALLOWED:.0f} ms"
        lines.append(f"| `{name}` | {1000 * seconds:.0f} | {seconds / middle[NOTHING]:.1f}x | {goal} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--dry", action="store_true", help="leave docs/performance.md alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        taken = measure(Path(folder), given.rounds)
    table = tell(taken)
    print(table)
    if not given.dry:
        old = PERFORMANCE.read_text() if PERFORMANCE.exists() else ""
        PERFORMANCE.write_text(put_into(old, table))
    nothing = statistics.median(taken[NOTHING])
    ratios = {
        f"CPU of {name} over {NOTHING}": statistics.median(taken[name]) / nothing for name in (HELP, STATUS)
    }
    goals = {f"CPU of {name} over 0.3 s": 1.0 for name in (HELP, STATUS)}
    ratios |= {
        f"CPU of {name} over 0.3 s": statistics.median(taken[name]) / ALLOWED for name in (HELP, STATUS)
    }
    met = all(ratios[name] <= goal for name, goal in goals.items())
    rounded = {name: round(ratio, 2) for name, ratio in ratios.items()}
    print(json.dumps({"bench": "startup", "ratios": rounded, "goals": goals, "met": met}))


def put_into(text: str, section: str) -> str:
    """The page with the section of this measurement replaced, or added at its end."""
    marked = f"{BEGIN}\n## Start-up\n\n{section}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    if not begin:
        return f"{text.rstrip() or '# Performance'}\n\n{marked}"
    return before + marked + rest.partition(END)[2].removeprefix("\n")


if __name__ == "__main__":
    main()
