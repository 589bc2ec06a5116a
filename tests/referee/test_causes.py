"""Ends and causes (S12): one synthetic log per cause, and what decides when several facts are there."""

import pytest

from palestra.events.jobs import Cause, End
from palestra.referee.causes import LONGEST, classify, telling_line
from palestra.rules.units import MIB, SECOND, Bytes, Micros

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
GPU = f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.1 GiB\n"
BUS = "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. insufficient shared memory (shm)\n"


@pytest.mark.parametrize(
    ("exit_code", "log", "end", "cause", "evidence"),
    [
        (0, "done\n", "completed", "none", ""),
        (1, GPU, "out_of_memory", "gpu_oom", "torch.OutOfMemoryError: CUDA out of memory"),
        (
            1,
            "torch.cuda.OutOfMemoryError: tried\n",
            "out_of_memory",
            "gpu_oom",
            "torch.cuda.OutOfMemoryError",
        ),
        (1, "RuntimeError: HIP out of memory. Tried to\n", "out_of_memory", "gpu_oom", "HIP out of memory"),
        (
            1,
            "RuntimeError: CUDA error: out of memory\n",
            "out_of_memory",
            "gpu_oom",
            "CUDA error: out of memory",
        ),
        (1, f"{TRACE}MemoryError\n", "out_of_memory", "host_oom", "MemoryError"),
        (
            1,
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB\n",
            "out_of_memory",
            "host_oom",
            "_Array",
        ),
        (
            1,
            "OSError: [Errno 12] Cannot allocate memory\n",
            "out_of_memory",
            "host_oom",
            "Cannot allocate memory",
        ),
        (134, "terminate called: 'std::bad_alloc'\n", "out_of_memory", "host_oom", "std::bad_alloc"),
        (1, BUS, "out_of_memory", "host_oom", "insufficient shared memory"),
        (137, "train.sh: line 3:  8123 Killed    python train.py\n", "out_of_memory", "host_oom", "Killed"),
        (
            -9,
            "[81.2] Out of memory: Killed process 8123 (python)\n",
            "out_of_memory",
            "host_oom",
            "Killed process 8123",
        ),
        (
            1,
            "OSError: [Errno 28] No space left on device: 'ckpt'\n",
            "failed",
            "quota",
            "No space left on device",
        ),
        (1, "OSError: [Errno 122] Disk quota exceeded\n", "failed", "quota", "Disk quota exceeded"),
        (1, f"{TRACE}ValueError: lr\n\n", "failed", "user_error", "exit code 1: ValueError: lr"),
        (137, "step 3\n", "failed", "user_error", "exit code 137 (signal KILL): step 3"),
        (-11, "", "failed", "user_error", "exit code -11 (signal SEGV)"),
        (139, "", "failed", "user_error", "exit code 139 (signal SEGV)"),
        (1, "a Killed bee\n", "failed", "user_error", "exit code 1"),
        (None, "", "lost", "infrastructure", "no exit code"),
    ],
)
def test_one_log_per_cause(exit_code: int | None, log: str, end: End, cause: Cause, evidence: str) -> None:
    got = classify(exit_code=exit_code, log_tail=log)
    assert got[:2] == (end, cause)
    assert evidence in got[2]


def test_a_time_limit_says_which_limit_and_what_was_measured() -> None:
    """F40: the limit, its value and the measured time."""
    end, cause, evidence = classify(
        exit_code=143, over_time=True, limit=Micros(3 * SECOND), measured=3_020_000
    )
    assert (end, cause) == ("timed_out", "time_limit")
    assert evidence == "time limit 3 s hit at 3.0 s"


def test_too_much_memory_is_out_of_memory_even_at_exit_0() -> None:
    got = classify(exit_code=0, over_memory=True, memory=Bytes(64 * MIB), peak=Bytes(70 * MIB))
    assert got == ("out_of_memory", "host_oom", "memory limit 64 MiB hit at 70 MiB")


def test_a_swallowed_crash_is_not_completed() -> None:
    """F15: exit 0 without the declared outputs; what the log says stands beside it."""
    end, cause, evidence = classify(exit_code=0, missing_outputs=("out/a", "out/b"), log_tail=GPU)
    assert (end, cause) == ("completed_without_output", "no_output")
    assert "out/a, out/b" in evidence and "CUDA out of memory" in evidence


def test_exit_0_with_outputs_is_completed_whatever_the_log_says() -> None:
    """A program that met an error and got over it did its work."""
    assert classify(exit_code=0, log_tail=GPU) == ("completed", "none", "")


@pytest.mark.parametrize(
    ("why", "end"), [("cancelled", "cancelled"), ("stage_end", "cancelled"), ("server_stop", "preempted")]
)
def test_a_stop_keeps_its_reason(why: Cause, end: End) -> None:
    for exit_code in (0, 143, 137):
        assert classify(exit_code=exit_code, stopped_for=why, log_tail=GPU)[:2] == (end, why)


def test_a_limit_passed_goes_before_a_stop() -> None:
    assert classify(exit_code=143, over_time=True, stopped_for="cancelled")[:2] == ("timed_out", "time_limit")
    assert classify(exit_code=137, over_memory=True, stopped_for="cancelled")[:2] == (
        "out_of_memory",
        "host_oom",
    )


def test_the_last_telling_line_decides() -> None:
    assert telling_line(f"{GPU}retrying with less\nOSError: No space left on device\n") == (
        "quota",
        "OSError: No space left on device",
    )
    assert telling_line("all well\n") is None


def test_evidence_is_short_and_shows_its_cut() -> None:
    _, _, evidence = classify(exit_code=1, log_tail="CUDA out of memory " + "\N{SNOWMAN}" * 500)
    assert len(evidence.encode()) <= LONGEST and evidence.endswith(" [cut]")
