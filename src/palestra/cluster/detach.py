"""A program, not a module: detach.py SHELL SCRIPT FOLDER. Leaves its starter for good and becomes that shell.

It is its session's leader, a child of init, with default signals, and where the kernel can do it the new parent of every
process below it that loses its own; the script is then told `reaper`. Imports nothing of Palestra: it is run with -I -S.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(shell: str, script: str, folder: str) -> None:
    """Returns in the starter's child only; the process that goes on is another program by then."""
    if os.fork():
        return
    os.setsid()
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGPIPE,
        signal.SIGTERM,
        signal.SIGXFSZ,
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    reaper = "no"
    with contextlib.suppress(OSError, AttributeError):
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
            reaper = "reaper"
    os.execv(shell, [shell, script, folder, shell, reaper])  # noqa: S606  # a list, and no shell in between


if __name__ == "__main__":
    main(*sys.argv[1:])
