"""The gateway against the LiteLLM proxy, one worker each, in front of one upstream that costs nothing. Run by `./dev bench gateway`.

Ours authorises, holds the worst case durably (SQLite, synchronous=FULL), passes the bytes, records the exchange and settles
it. LiteLLM runs with a master key only: no database, so no budget is kept there. Candidates take turns in every round; CPU
is user and system time of a gateway's whole process tree per answered call; at one connection each of our calls pays for
syncs of its own, at 16 they share them. At the end 1,000 streams, half of them left in
the middle, meet a credit that doesn't reach: what the upstream has answered with may not cost more than the credit.
The peer is installed into build/bench/litellm (about 760 MB) the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from palestra.gateway.app import Gateway, Limits, Route
from palestra.gateway.transcript import Recorder
from palestra.gateway.upstream import HttpUpstream
from palestra.journal.record import SqliteRecord
from palestra.journal.sqlite import SqliteJournal
from palestra.journal.writer import Writer
from palestra.referee.observations import ServerUp, Tick
from palestra.referee.requests import OpenRun
from palestra.rules.competition import (
    Allowance,
    Base,
    Competition,
    EntrantRule,
    Exam,
    JobRules,
    Model,
    Node,
    Serving,
    Stages,
    Upstream,
)  # fmt: skip
from palestra.rules.prices import Price, Usage, cost
from palestra.rules.units import (
    DAY,
    DOLLAR,
    GIB,
    HOUR,
    SECOND,
    Bytes,
    Digest,
    GpuMicros,
    Micros,
    Moment,
    NanoDollars,
)
from palestra.runtime.book import Book
from palestra.runtime.clock import RunClock
from palestra.runtime.desk import Desk

ROOT = Path(__file__).resolve().parents[1]
ENDS = Path(__file__).with_name("_gateway_ends.py")
PEER = ROOT / "build" / "bench" / "litellm"
PEER_PACKAGE = "litellm[proxy]==1.108.7"
KEY = "sk-bench"
PRICE = Price(
    input=NanoDollars(DOLLAR), output=NanoDollars(4 * DOLLAR), cached_input=NanoDollars(DOLLAR // 10),
    cache_write=NanoDollars(DOLLAR),
)  # fmt: skip
CELLS = [("JSON", 1), ("JSON", 16), ("stream", 1), ("stream", 16)]
CREDIT = DOLLAR // 4
GOALS = {
    "CPU per JSON call at 16 connections": 1 / 15,
    "CPU per stream at 16 connections": 1 / 30,
    "requests/s at 16 connections": 20.0,
    "added p50 at 1 connection": 1 / 10,
    "overshoot, nano-dollars": 0,
}
AT_LEAST = {"requests/s at 16 connections"}


def rules(credit: int) -> Competition:
    node = Node("n", 1, Bytes(GIB))
    return Competition(
        name="bench", title="Bench", zone="UTC",
        stages=Stages(None, Micros(DAY), Micros(HOUR), Micros(HOUR)),
        allowance=Allowance(NanoDollars(credit), GpuMicros(HOUR)),
        base=Base("base"), nodes=(node,), jobs=JobRules(Micros(HOUR), Bytes(GIB), 1, 1),
        upstreams=(Upstream("up", url="http://127.0.0.1"),),
        models=(Model("house-mini", "up", "real-name-1", PRICE),),
        entrants=(EntrantRule("One", model="house-mini"),),
        serving=Serving(("x",), ("x",), ("x",), Bytes(GIB), Micros(HOUR)), exam=Exam("exam.py", 1),
    )  # fmt: skip


class Quiet(uvicorn.Server):
    """A server that leaves signals to us: uvicorn's own raises them again at its end, before the ledger is told."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(folder: Path, upstream: str, credit: int) -> None:
    """Our gateway with a durable desk behind it; prints its port, ends on TERM."""
    journal = SqliteJournal(folder, "bench")
    record = SqliteRecord(folder)
    desk = Desk(Book("bench"), Writer(journal, record), RunClock())
    zero = Digest("sha256:" + "0" * 64)
    start = Moment(time.time_ns() // 1000 - SECOND)
    await desk.ask(
        OpenRun("server", None, "bench", rules(credit), start, zero, zero, zero, zero, "0", "none")
    )
    await desk.tell(ServerUp(os.getpid(), "0"))
    await desk.tell(Tick())
    routes, limits = {"up": Route(f"{upstream}/v1", KEY)}, Limits(wait=Micros(30 * SECOND))
    http = HttpUpstream()
    gateway = Gateway(desk, rules(credit).models, routes, http, Recorder(desk, desk.clock), limits)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["palestra.corner"] = "A"
        await gateway(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False, ws="none")
        server = Quiet(config)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, server, "should_exit", True)
        await server.serve(sockets=[listener])
    await gateway.drain(30)
    await http.close()
    account = desk.book.state.accounts["A", "api"]
    print(json.dumps({"limit": account.limit, "spent": account.spent, "held": account.held}), flush=True)


@contextlib.contextmanager
def started(argv: list[str], **env: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that prints its port first; TERMed at the end."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(60)


@contextlib.contextmanager
def litellm(upstream: str, folder: Path) -> Iterator[tuple[int, int]]:
    """(pid, port) of the peer, answering."""
    if not (PEER / "bin" / "litellm").exists():
        print(f"installing {PEER_PACKAGE} into {PEER}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", PEER], check=True)
        subprocess.run([PEER / "bin" / "python", "-m", "pip", "install", "-q", PEER_PACKAGE], check=True)
    config = {
        "model_list": [
            {
                "model_name": "house-mini",
                "litellm_params": {
                    "model": "openai/real-name-1",
                    "api_base": f"{upstream}/v1",
                    "api_key": "x",
                },
            }
        ],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False},
    }
    path = folder / "litellm.json"  # JSON is YAML
    path.write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [
        str(PEER / "bin" / "litellm"),
        "--config",
        str(path),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]
    env = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "DISABLE_ADMIN_UI": "True",
    }
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, env=env, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            wait_for(port, process)
            yield process.pid, port
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the peer ended with {process.returncode} before it answered")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit("the peer didn't answer within 5 minutes")


def request(kind: str, port: int, cap: int = 64) -> bytes:
    """3.7 KB, as a coding agent's first."""
    body = json.dumps(
        {
            "model": "house-mini",
            "messages": [
                {"role": "system", "content": "You are careful. " * 205},
                {"role": "user", "content": "Go on."},
            ],
            "max_tokens": cap,
            **({"stream": True} if kind == "stream" else {}),
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\nconnection: keep-alive\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def cpu(pid: int) -> float:
    """Seconds of user and system time of a process and its living children."""
    seconds = 0.0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


def tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def measure(
    port: int, pid: int | None, kind: str, connections: int, seconds: float
) -> dict[str, float] | None:
    """Requests a second, p50 in ms, CPU in ms a call; None when nothing was answered in time."""
    before = cpu(pid) if pid else 0.0
    argv = [sys.executable, str(ENDS), "load", str(port), str(connections), str(seconds)]
    done = subprocess.run(argv, input=request(kind, port), capture_output=True, check=True)
    told = json.loads(done.stdout)
    spent = (cpu(pid) if pid else 0.0) - before
    if set(told["statuses"]) - {"200"}:
        raise SystemExit(f"port {port}, {kind}: answers were {told['statuses']}")
    if not told["times"]:
        return None
    calls = len(told["times"])
    return {
        "rps": calls / told["seconds"],
        "p50": 1000 * statistics.median(told["times"]),
        "cpu": 1000 * spent / calls,
    }


def overshoot(upstream: str, calls: int) -> tuple[int, str]:
    """Nano-dollars that the upstream's own tally costs beyond the credit, and what happened."""
    before = tally(upstream)
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, __file__, "--serve", folder, upstream, str(CREDIT)]
        with started(argv) as (process, port):
            asked = request("stream", port, cap=4000)
            subprocess.run(
                [sys.executable, str(ENDS), "hang-up", str(port), "64", str(calls)], input=asked, check=True
            )
            process.terminate()
            assert process.stdout is not None
            account = json.loads(process.stdout.readline())
    after = tally(upstream)
    used = {name: after[name] - before[name] for name in after}
    owed = cost(PRICE, Usage(fresh_input=used["prompt"], output=used["completion"]))
    text = (
        f"{used['calls']} of {calls} streams answered, {owed:,} of {CREDIT:,} nano-dollars; ledger {account}"
    )
    return max(0, owed - CREDIT, account["spent"] - account["limit"]), text


def tally(upstream: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{upstream}/tally", timeout=10) as response:
        counts: dict[str, int] = json.load(response)
    return counts


def run(rounds: int, seconds: float, calls: int) -> None:
    found: dict[tuple[str, str, int], list[dict[str, float]]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, port = stack.enter_context(started([sys.executable, str(ENDS), "upstream"]))
        upstream = f"http://127.0.0.1:{port}"
        (folder / "run").mkdir()
        argv = [sys.executable, __file__, "--serve", str(folder / "run"), upstream, str(1_000_000 * DOLLAR)]
        process, our_port = stack.enter_context(started(argv))
        peer_pid, peer_port = stack.enter_context(litellm(upstream, folder))
        candidates: dict[str, tuple[int, int | None]] = {
            "direct": (port, None),
            "palestra": (our_port, process.pid),
            "LiteLLM": (peer_port, peer_pid),
        }
        for turn in range(rounds + 1):
            for kind, connections in CELLS:
                for name, (at, pid) in candidates.items():
                    cell = measure(at, pid, kind, connections, seconds)
                    if turn and cell is not None:  # the first turn warms up
                        found.setdefault((name, kind, connections), []).append(cell)
        beyond, text = overshoot(upstream, calls)
    report(found, beyond, text)


def report(found: dict[tuple[str, str, int], list[dict[str, float]]], beyond: int, text: str) -> None:
    def of(name: str, kind: str, connections: int, what: str) -> float:
        cells = found.get((name, kind, connections))
        return statistics.median(cell[what] for cell in cells) if cells else float("nan")

    print(f"{'':<24}{'requests/s':>12}{'p50 ms':>10}{'CPU ms/call':>13}")
    for name, kind, connections in sorted(found, key=lambda key: (CELLS.index((key[1], key[2])), key[0])):
        cell = [of(name, kind, connections, what) for what in ("rps", "p50", "cpu")]
        print(f"{f'{kind} c={connections}, {name}':<24}{cell[0]:>12.1f}{cell[1]:>10.2f}{cell[2]:>13.2f}")
    print(text)
    added = [of(name, "JSON", 1, "p50") - of("direct", "JSON", 1, "p50") for name in ("palestra", "LiteLLM")]
    ratios = {
        "CPU per JSON call at 16 connections": of("palestra", "JSON", 16, "cpu")
        / of("LiteLLM", "JSON", 16, "cpu"),
        "CPU per stream at 16 connections": of("palestra", "stream", 16, "cpu")
        / of("LiteLLM", "stream", 16, "cpu"),
        "requests/s at 16 connections": of("palestra", "JSON", 16, "rps") / of("LiteLLM", "JSON", 16, "rps"),
        "added p50 at 1 connection": added[0] / added[1],
        "overshoot, nano-dollars": beyond,
    }
    met = all(
        ratio >= GOALS[what] if what in AT_LEAST else ratio <= GOALS[what] for what, ratio in ratios.items()
    )
    rounded = {what: round(ratio, 4) for what, ratio in ratios.items()}
    goals = {what: round(goal, 4) for what, goal in GOALS.items()}
    print(json.dumps({"bench": "gateway", "ratios": rounded, "goals": goals, "met": met}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="for each candidate in each cell of a round"
    )
    parser.add_argument(
        "--calls", type=int, default=1_000, help="streams against a credit that doesn't reach"
    )
    parser.add_argument("--serve", nargs=3, metavar=("FOLDER", "UPSTREAM", "CREDIT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        folder, upstream, credit = given.serve
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(Path(folder), upstream, int(credit)))
        return
    run(given.rounds, given.seconds, given.calls)


if __name__ == "__main__":
    main()
