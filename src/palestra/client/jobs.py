"""`arena submit | jobs | cancel`: a job asked for, looked at, waited for, stopped."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palestra.client import show
from palestra.client.connection import Connection, from_environment
from palestra.client.errors import BadUsage
from palestra.client.options import below_home, declare_json, declare_request, request_key, seconds

POLL = 30  # seconds; one long poll
JOB_ID = re.compile(r"[A-Za-z]+-j\d+")


def declare_submit(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "arena submit --time DURATION [options] SCRIPT [-- ARG...]\n"
        "       arena submit --time DURATION [options] -- COMMAND [ARG...]"
    )
    parser.add_argument(
        "script", nargs="?", metavar="SCRIPT", help="sent as it is now; its first line names its interpreter"
    )
    parser.add_argument(
        "--time", required=True, metavar="DURATION", help="the most it may take: 90m, 2h30m, PT2H"
    )
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="1 unless given")
    parser.add_argument("--memory", metavar="SIZE", help="16GiB, 512MiB; unless given, as the rules say")
    parser.add_argument("--name", default="", metavar="NAME", help="what you call it")
    parser.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="PATH",
        help="a path the job must make or renew to count as completed",
    )
    declare_request(parser)
    parser.set_defaults(argv=[])


def submit(options: argparse.Namespace) -> int:
    argv, script = _command(options.script, options.argv)
    asked: dict[str, Any] = {
        "name": options.name,
        "argv": argv,
        "script": script,
        "gpus": options.gpus,
        "memory": options.memory,
        "time": options.time,
        "cwd": below_home(".", "the current folder"),
        "outputs": options.out,
    }
    answer = from_environment().ask("POST", "/arena/jobs", asked, key=request_key(options))
    if options.json:
        show.print_json(answer)
        return 0
    print(f"job {answer['job']}")
    understood = [(name, str(value)) for name, value in answer.get("understood", {}).items()]
    print(show.facts([("state", answer["state"]), *understood, ("waits for", _wait(answer))]))
    return 0


def _command(script: str | None, argv: list[str]) -> tuple[list[str], str | None]:
    """The job's argv and its script's text; `{script}` stands for where the arena will put that."""
    if script is None:
        if not argv:
            raise BadUsage("nothing to run: give a script, or `--` and a command")
        return argv, None
    try:
        text = Path(script).read_bytes().decode()
    except OSError as error:
        raise BadUsage(f"script {script!r} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadUsage(f"script {script!r} isn't UTF-8 text; run a program as: -- {script}") from None
    first = text.partition("\n")[0]
    interpreter = first[2:].split() if first.startswith("#!") else []
    return [*(interpreter or ["/bin/sh"]), "{script}", *argv], text


def declare_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="one job, such as A-j17; unless given, all of yours"
    )
    parser.add_argument(
        "--wait",
        nargs="?",
        const="",
        metavar="DURATION",
        help="until it has ended (all of them, without ID), or for so long: 90s, 5m; exits 1 unless all completed",
    )
    declare_json(parser)


def jobs(options: argparse.Namespace) -> int:
    if options.wait and options.id is None and JOB_ID.fullmatch(options.wait):
        options.id, options.wait = options.wait, ""  # `jobs --wait A-j17`
    limit = seconds(options.wait) if options.wait else None
    arena = from_environment()
    listed = [_job(arena, options.id)] if options.id else arena.ask("GET", "/arena/jobs")["jobs"]
    if options.wait is not None:
        deadline = None if limit is None else time.monotonic() + limit
        listed = [_until_ended(arena, job, deadline) for job in listed]
    if options.json:
        show.print_json(listed[0] if options.id else {"jobs": listed})
    elif options.id:
        print(_details(listed[0]))
    else:
        print(_overview(listed))
    return 1 if options.wait is not None and any(job.get("end") != "completed" for job in listed) else 0


def _job(arena: Connection, job: str, wait: int = 0) -> dict[str, Any]:
    suffix = f"?wait={wait}" if wait else ""
    return arena.ask("GET", f"/arena/jobs/{quote(job, safe='')}{suffix}", wait=wait)


def _until_ended(arena: Connection, job: dict[str, Any], deadline: float | None) -> dict[str, Any]:
    while job["state"] != "ended":
        left = POLL if deadline is None else min(POLL, int(deadline - time.monotonic()))
        if left <= 0:
            return _job(arena, job["id"])
        job = _job(arena, job["id"], left)
    return job


def _overview(listed: list[dict[str, Any]]) -> str:
    if not listed:
        return "no jobs yet"
    rows = []
    for job in listed:
        state = job["end"] if job["state"] == "ended" else job["state"]
        when = job.get("ended_t") or job.get("started_t") or job.get("submitted_t") or ""
        rows.append(
            [job["id"], str(state), when, str(job["gpus"]), show.size(job["memory"]), _news(job), job["name"]]
        )
    return show.table(["JOB", "STATE", "SINCE", "GPUS", "MEMORY", "NEWS", "NAME"], rows, flexible=5)


def _news(job: dict[str, Any]) -> str:
    """The one thing worth a column: why it waits, how far it is, what ended it."""
    if job["state"] == "ended":
        return "" if job.get("cause") in (None, "none", job.get("end")) else str(job["cause"])
    if job["state"] == "queued":
        return _wait(job)
    return _progress(job)


def _details(job: dict[str, Any]) -> str:
    """All there is about one job; the first line is a sentence of its own."""
    ended = job["state"] == "ended"
    head = f"{job['id']} {job['name']}".rstrip() + f": {job['end'] if ended else job['state']}"
    cause = "" if job.get("cause") in (None, "none") else str(job["cause"])
    times = ((name, job.get(f"{name}_t")) for name in ("submitted", "started", "ended"))
    rows = [
        ("cause", cause),
        ("evidence", str(job.get("evidence") or "")),
        ("exit code", "" if job.get("exit_code") is None else str(job["exit_code"])),
        ("waits for", "" if ended else _wait(job)),
        ("progress", _progress(job)),
        ("times", ", ".join(f"{name} {at}" for name, at in times if at)),
        (
            "asked",
            f"{job['gpus']} GPU{'' if job['gpus'] == 1 else 's'}, {show.size(job['memory'])}, at most {show.span(job['limit'])}",
        ),
        ("peak memory", show.size(job.get("peak_memory"))),
        ("charged", show.gpu_time(job.get("gpu_time_charged"))),
        ("attempts", _attempts(job.get("attempts"))),
    ]
    return head + "\n" + show.facts(rows)


def _wait(answer: dict[str, Any]) -> str:
    wait = answer.get("wait")
    return str(wait.get("sentence") or wait.get("resource") or "") if isinstance(wait, dict) else ""


def _progress(job: dict[str, Any]) -> str:
    progress = job.get("progress")
    return f"step {progress['step']} of {progress['of']}" if progress else ""


def _attempts(attempts: Any) -> str:
    n = len(attempts) if isinstance(attempts, list) else attempts or 0
    return str(n) if n > 1 else ""


def declare_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job, such as A-j17")
    declare_request(parser)


def cancel(options: argparse.Namespace) -> int:
    path = f"/arena/jobs/{quote(options.id, safe='')}/cancel"
    answer = from_environment().ask("POST", path, {}, key=request_key(options))
    if options.json:
        show.print_json(answer)
    else:
        print(f"{answer['job']}: {answer['state']}")
    return 0
