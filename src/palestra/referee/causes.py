"""How an attempt ended and why: measured facts and the end of its log in; end, cause and quoted evidence out.

End and cause are two fields. What was measured (limits passed) goes before what was asked (a stop), and that before what
the log says. A log is only read for the cause of a failure, never to call a clean exit a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from palestra.events.jobs import Cause, End
from palestra.rules.units import Bytes, Micros, show_duration, show_size

LONGEST = 300
"""Bytes of evidence quoted."""

_TELLING: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (
        "gpu_oom",
        re.compile(
            r"(CUDA|HIP|XPU|MPS backend) out of memory|torch(\.cuda)?\.OutOfMemoryError|CUDA error: out of memory"
            r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED"
            r"|RESOURCE_EXHAUSTED: Out of memory"
        ),
    ),
    (
        "host_oom",
        re.compile(
            r"MemoryError\b|Cannot allocate memory|std::bad_alloc|DefaultCPUAllocator: (can't allocate|not enough) memory"
            r"|insufficient shared memory|DataLoader worker .* killed by signal: Killed"
        ),
    ),
    ("quota", re.compile(r"No space left on device|Disk quota exceeded")),
)
_KERNEL = re.compile(
    r"Out of memory: Killed process|oom[-_ ]kill|Memory cgroup out of memory|(^|\s)Killed\b", re.IGNORECASE
)
_SIGNALS = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    4: "ILL",
    6: "ABRT",
    7: "BUS",
    8: "FPE",
    9: "KILL",
    11: "SEGV",
    13: "PIPE",
    15: "TERM",
}


def classify(
    *,
    exit_code: int | None,
    over_time: bool = False,
    over_memory: bool = False,
    missing_outputs: tuple[str, ...] = (),
    log_tail: str = "",
    stopped_for: Cause = "none",
    limit: Micros | None = None,
    measured: int | None = None,
    memory: Bytes | None = None,
    peak: Bytes | None = None,
) -> tuple[End, Cause, str]:
    """End, cause and evidence of an attempt whose processes are all gone.

    `stopped_for` is the cause given with a stop, `none` without one. `limit` and `measured` (microseconds) and `memory` and
    `peak` (bytes) are quoted where they decided.
    """
    if over_memory:
        return "out_of_memory", "host_oom", _over("memory limit", memory, peak, show_size)
    if over_time:
        return "timed_out", "time_limit", _over("time limit", limit, measured, show_duration)
    if stopped_for != "none":
        # Its own exit code proves nothing here: a program may save, exit 0 and still be far from done.
        end: End = "preempted" if stopped_for in ("server_stop", "infrastructure") else "cancelled"
        return end, stopped_for, clip(f"stopped ({stopped_for.replace('_', ' ')}); {_code(exit_code)}")
    if exit_code is None:
        return "lost", "infrastructure", "no exit code was recorded"
    if exit_code == 0:
        return _clean(missing_outputs, log_tail)
    return _failed(exit_code, log_tail)


def telling_line(log: str) -> tuple[Cause, str] | None:
    """The last line that names a cause by itself."""
    for line in reversed(log.splitlines()):
        for cause, pattern in _TELLING:
            if pattern.search(line):
                return cause, line.strip()
    return None


def clip(text: str) -> str:
    """At most `LONGEST` bytes, the cut shown."""
    data = text.encode("utf-8", "replace")
    if len(data) <= LONGEST:
        return text
    return data[: LONGEST - 6].decode("utf-8", "ignore") + " [cut]"


def _clean(missing: tuple[str, ...], log: str) -> tuple[End, Cause, str]:
    if not missing:
        return "completed", "none", ""
    said = telling_line(log)
    hint = f"; the log says: {said[1]}" if said else ""
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return (
        "completed_without_output",
        "no_output",
        clip(f"exit code 0, but missing or not new: {shown}{hint}"),
    )


def _failed(exit_code: int, log: str) -> tuple[End, Cause, str]:
    said = telling_line(log)
    if said is not None:
        cause, line = said
        return ("failed" if cause == "quota" else "out_of_memory"), cause, clip(line)
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if exit_code in (137, -9):
        kernel = next((line for line in reversed(lines) if _KERNEL.search(line)), None)
        if kernel is not None:
            return "out_of_memory", "host_oom", clip(kernel)
    return "failed", "user_error", clip(_code(exit_code) + (f": {lines[-1]}" if lines else ""))


def _code(exit_code: int | None) -> str:
    if exit_code is None:
        return "no exit code"
    number = -exit_code if exit_code < 0 else exit_code - 128
    name = f" (signal {_SIGNALS[number]})" if number in _SIGNALS else ""
    return f"exit code {exit_code}{name}"


def _over(what: str, limit: int | None, measured: int | None, show: Callable[[int], str]) -> str:
    text = what if limit is None else f"{what} {show(limit)}"
    return f"{text} passed" if measured is None else f"{text} hit at {show(measured)}"
