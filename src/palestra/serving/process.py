"""Model servers as child processes: an argv in, an endpoint that has given a real answer out; stopped with all they started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from palestra.events.nominations import AnswerSettings
from palestra.ports import Endpoint, Question
from palestra.rules.competition import Serving
from palestra.rules.errors import BadInput, Broken
from palestra.rules.units import SECOND, Micros
from palestra.serving.ask import Unanswered, ask_or_raise, is_healthy, list_models

LONGEST_SOCKET = 100
"""Bytes of a socket's path; the system's own limit is about 107, on some systems 103."""
NOMINATED = "nominated"
GRACE = Micros(10 * SECOND)
REFUSED = (400, 413, 422)
"""What a server says that will never answer this question, however long one waits."""
_PAUSE = 0.05
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class Started(msgspec.Struct, frozen=True):
    """A server that is ready, and how long it took from its start to its first real answer (F41)."""

    endpoint: Endpoint
    ready: Micros


class ServerProcess:
    """One model server in a process group of its own, with a private folder for its socket. Use it in a `with`, or stop it."""

    def __init__(self, argv: Sequence[str], log: Path, folder: Path | None = None) -> None:
        """`{socket}` in `argv` is filled in; output goes to the end of `log`; `folder` is where the socket's folder is made."""
        self.folder = Path(tempfile.mkdtemp(prefix="ps-", dir=folder or _short_folder()))
        self.socket = str(self.folder / "s")
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET:
            self.folder.rmdir()
            raise BadInput(
                "socket folder",
                str(folder),
                f"a path so short that a socket's stays below {LONGEST_SOCKET} bytes",
            )
        self.log = log
        self.began = time.monotonic()
        with log.open("ab") as out:
            self.log_start = out.tell()
            try:
                self.process = _start([part.replace("{socket}", self.socket) for part in argv], out)
            except OSError as error:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise Broken(
                    f"the model server could not be started: {argv[0]}: {error.strerror}", retry=False
                ) from None

    def wait_ready(
        self, hello: Sequence[Question], settings: AnswerSettings, budget: Micros, model: str = ""
    ) -> Started:
        """Ready is healthy *and* a first real answer to one of `hello`, within the budget; else `Broken` with the log's end.

        `model` empty: the name `nominated` where the server has it, else its only or last one.
        """
        deadline = self.began + budget / SECOND
        trouble, refused = "it was never healthy", 0
        while time.monotonic() < deadline and refused < len(hello):
            if self.has_ended():
                raise Broken(f"the model server {self.how_it_ended()}", retry=False)
            left = Micros(max(1, int((deadline - time.monotonic()) * SECOND)))
            try:
                if is_healthy(self.socket, left):
                    endpoint = Endpoint(self.socket, model or self._pick_model(left))
                    ask_or_raise(
                        endpoint, msgspec.structs.replace(hello[refused], max_tokens=1), settings, left
                    )
                    return Started(endpoint, Micros(int((time.monotonic() - self.began) * SECOND)))
            except Unanswered as error:
                trouble = str(error)
                refused += error.status in REFUSED
            time.sleep(_PAUSE)  # between two looks
        within = (
            "answers none of the first questions"
            if refused
            else f"was not ready within {budget / SECOND:g} s"
        )
        raise Broken(f"the model server {within}: {trouble}; its log ends: {self.tail()}", retry=False)

    def _pick_model(self, patience: Micros) -> str:
        names = list_models(self.socket, patience)
        if not names:
            raise Unanswered("/v1/models is empty", 200)
        return NOMINATED if NOMINATED in names else names[-1]

    def has_ended(self, wait: float = 0.0) -> bool:
        """Whether it is gone; `wait` seconds for one whose socket just broke."""
        try:
            self.process.wait(wait)
        except subprocess.TimeoutExpired:
            return False
        return True

    def how_it_ended(self) -> str:
        """With the log's end, which says why."""
        return f"ended with exit code {self.process.returncode}; its log ends: {self.tail()}"

    def tail(self, limit: int = 1500) -> str:
        """The last of what this server wrote."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - limit))
            return file.read().decode("utf-8", "replace").strip() or "it wrote nothing"

    def stop(self, grace: Micros = GRACE) -> None:
        """TERM to the whole group, KILL after the grace; returns when it is gone. Harmless when it already is."""
        self._signal(signal.SIGTERM)
        self.has_ended(grace / SECOND)
        self._signal(signal.SIGKILL)  # also for what the server started and left behind
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(
            ProcessLookupError, PermissionError
        ):  # none is left; macOS says so in the second way
            os.killpg(self.process.pid, number)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _short_folder() -> str:
    """The system's own folder for such files, unless its path is long."""
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < LONGEST_SOCKET // 2 else "/tmp"  # noqa: S108


def _start(argv: list[str], out: BinaryIO) -> subprocess.Popen[bytes]:
    # Linux ties this to the thread that starts the server, so only a thread that lasts may ask for it.
    lasting = threading.current_thread() is threading.main_thread()
    tie = partial(_die_with, os.getpid()) if _PRCTL and lasting else None
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, process_group=0, preexec_fn=tie
    )


def _die_with(parent: int) -> None:
    """Run in the new process: a killed attempt leaves no server behind."""
    if _PRCTL:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)


def fill(template: Sequence[str], base: Path, artifact: Path | None) -> tuple[str, ...]:
    """A serving rule's argv with the base's and the artifact's folders; `{socket}` stays for the process."""
    model = str(artifact or base)
    return tuple(
        part.replace("{base}", str(base)).replace("{model}", model).replace("{adapter}", model)
        for part in template
    )


def server_argv(rule: Serving, base: Path, artifact: Path | None) -> tuple[str, ...]:
    """The argv for a kept artifact, told from its files; for the base where there is none."""
    if artifact is None:
        return fill(rule.base, base, None)
    adapter = (artifact / "adapter_config.json").is_file() and (
        artifact / "adapter_model.safetensors"
    ).is_file()
    return fill(rule.adapter if adapter else rule.full, base, artifact)


class LocalModelServer:
    """`palestra.ports.ModelServer`: one child process a key, for as long as this object's program runs."""

    def __init__(
        self, rule: Serving, base: Path, hello: Sequence[Question], logs: Path, budget: Micros | None = None
    ) -> None:
        """`hello` are questions in words that the model knows: an answer to one is what makes a server ready."""
        self.rule = rule
        self.base = base
        self.hello = hello
        self.logs = logs
        self.budget = budget or rule.longest
        self._running: dict[str, tuple[ServerProcess, Started]] = {}

    def start(self, artifact: Path | None, settings: AnswerSettings, key: str) -> Endpoint:
        """Returns when the model has answered. A key that runs already is not started again."""
        if key in self._running and not self._running[key][0].has_ended():
            return self._running[key][1].endpoint
        self.stop(key)
        server = ServerProcess(server_argv(self.rule, self.base, artifact), self.logs / f"{key}.log")
        try:
            started = server.wait_ready(self.hello, settings, self.budget)
        except BaseException:
            server.stop()
            raise
        self._running[key] = server, started
        return started.endpoint

    def ready(self, key: str) -> Micros:
        """How long this server took to its first real answer."""
        return self._running[key][1].ready

    def list(self) -> list[str]:
        return [key for key, (server, _) in self._running.items() if not server.has_ended()]

    def stop(self, key: str) -> None:
        server, _ = self._running.pop(key, (None, None))
        if server is not None:
            server.stop()
