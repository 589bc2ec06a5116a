"""One shell command of an agent: run in a process group of its own, within a time limit; its output back, clipped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

KEPT = 16_384  # bytes of output that the model sees
MOST_OUTPUT = 64 << 20  # bytes; a command that writes more is stopped
GRACE = 2.0  # seconds from TERM to KILL
# The command's own shell says which group it is before it begins, so that no crash of ours can lose it.
BEGIN = 'printf %s "$$" >"$1" && exec /bin/sh "$2"'


class Outcome(NamedTuple):
    """How a command ended."""

    output: bytes
    """The beginning and the end of standard output and error together."""
    left_out: int
    """Bytes between them."""
    exit_code: int
    seconds: float
    stopped: str = ""
    """Why it was killed, if it was."""

    def text(self) -> str:
        """What the model reads; bytes that aren't UTF-8 are shown as escapes, the cut is shown as a cut."""
        output = self.output
        if self.left_out:
            middle = f"\n[... {self.left_out} bytes left out here ...]\n".encode()
            output = (
                _whole(output[: KEPT // 2], at_end=True) + middle + _whole(output[KEPT // 2 :], at_end=False)
            )
        shown = output.decode("utf-8", "backslashreplace").rstrip("\n")
        end = (
            f"[{self.stopped}; exit {self.exit_code}]"
            if self.stopped
            else f"[exit {self.exit_code}, {self.seconds:.1f} s]"
        )
        return f"{shown}\n{end}" if shown else end


def run_command(command: str, limit: float, cwd: Path, env: Mapping[str, str], notes: Path) -> Outcome:
    """Run it to its end or for `limit` seconds. `notes` is a folder for the files that a restart may need."""
    notes.mkdir(exist_ok=True)
    output, script = notes / "output", notes / "command"
    for path in (
        output,
        script,
    ):  # new files: background processes of earlier commands may still use the old ones
        path.unlink(missing_ok=True)
    script.write_bytes(
        command.encode("utf-8", "backslashreplace")
    )  # a file, because an argument may not be this long
    begin = time.monotonic()
    with output.open("xb") as out:
        argv = ["/bin/sh", "-c", BEGIN, "sh", str(notes / "group"), str(script)]
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        stopped = _watch(process, output, begin + limit, limit)
    except BaseException:
        _kill_group(process)
        raise
    if stopped:
        _kill_group(process)
    data, left_out = _clipped(output)
    (notes / "group").unlink(missing_ok=True)
    return Outcome(data, left_out, process.returncode, time.monotonic() - begin, stopped)


def _watch(process: subprocess.Popen[bytes], output: Path, deadline: float, limit: float) -> str:
    """Wait for the end; why it must be stopped, or nothing when it ended by itself."""
    while True:
        try:
            process.wait(timeout=max(0.0, min(0.25, deadline - time.monotonic())))
            return ""
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                return f"stopped after its time limit of {limit:g} s, with all it had started"
            if output.stat().st_size > MOST_OUTPUT:
                return f"stopped: it wrote more than {MOST_OUTPUT >> 20} MiB; send large output to a file"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """TERM, then KILL, to everything in the command's group."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=GRACE)
        except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            continue
    process.wait()


def kill_left_over(notes: Path) -> None:
    """Stop what is left of a command whose harness was killed, if that can be told for sure."""
    group = notes / "group"
    try:
        pid, written = int(group.read_text()), group.stat().st_mtime
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime")
        )
        started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        # A later process of the same number began after the file was written; `btime` is in whole seconds.
        if os.getpgid(pid) == pid and started <= written + 2:
            os.killpg(pid, signal.SIGKILL)
    except (OSError, ValueError, StopIteration):
        pass
    group.unlink(missing_ok=True)


def _clipped(output: Path) -> tuple[bytes, int]:
    with output.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= KEPT:
            return file.read(KEPT), 0
        head = file.read(KEPT // 2)
        file.seek(size - KEPT // 2)
        return head + file.read(KEPT // 2), size - 2 * (KEPT // 2)


def _whole(data: bytes, *, at_end: bool) -> bytes:
    """Without the half of a UTF-8 character that a cut left at one end; other odd bytes stay and are shown."""
    if not at_end:
        first = next((i for i in range(min(4, len(data))) if data[i] & 0xC0 != 0x80), 0)
        return data[first:]
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data
