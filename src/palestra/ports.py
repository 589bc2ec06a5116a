"""Every edge of Palestra on one page, as protocols; rooms above implement them, the runtime wires them.

Whatever crosses a port is a frozen struct, a digest, a path or bytes. A change here needs a record in docs/decisions/.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from palestra.events.codec import Row
from palestra.events.nominations import AnswerSettings, Inspection
from palestra.referee.observations import Observation
from palestra.referee.requests import Receipt, Request
from palestra.rules.errors import Refusal
from palestra.rules.manifest import Manifest
from palestra.rules.units import Bytes, Digest, Micros, Moment
from palestra.state.catalog import View


class Clock(Protocol):
    """UTC microseconds that never decrease."""

    def now(self) -> Moment: ...
    async def sleep_until(self, moment: Moment) -> None: ...


class Desk(Protocol):
    """The one writer."""

    async def ask(self, request: Request) -> Receipt | Refusal:
        """Ruled, durable, then answered."""
        ...

    async def tell(self, observation: Observation) -> None:
        """Returns once the events are folded; durability follows."""
        ...

    def view(self) -> View:
        """What is so now; read it, never keep it across an await."""
        ...


class Journal(Protocol):
    """The chronological book. Sync; called in the journal's own thread."""

    def append(self, rows: Sequence[Row]) -> None:
        """All rows durable, or `Broken` and none. Rows must follow the head without a gap."""
        ...

    def read(self, after: int = 0, limit: int = 1000) -> list[Row]:
        """Rows with seq > after, in order, at most limit."""
        ...

    def head(self) -> tuple[int, bytes]:
        """(seq, digest) of the last row; (0, the first digest) when empty."""
        ...


class Blobs(Protocol):
    """Content by digest, beside the journal."""

    def put(self, data: bytes | Path) -> Digest: ...
    def open(self, digest: Digest) -> bytes:
        """`KeyError` when unknown or erased."""
        ...

    def erase(self, digest: Digest) -> None: ...


class StepRow(msgspec.Struct, frozen=True):
    """One numbered message, tool call or result of a corner's trajectory."""

    corner: str
    n: int
    call: str
    role: str
    digest: Digest
    at: Moment


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """What is started through the shim: it outlives the server and keeps its own time limit."""

    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...]
    """The whole environment; nothing is inherited."""
    limit: Micros | None = None
    grace: Micros = Micros(5_000_000)
    """From TERM to KILL."""
    memory: Bytes | None = None
    """Resident memory of the whole tree; more is killed where the launcher can see it."""


class ProcessSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one process started by key."""

    key: str
    state: Literal["running", "exited", "lost"]
    """`lost`: gone, and no status was written."""
    exit_code: int | None = None
    started: Moment | None = None
    ended: Moment | None = None
    over_time: bool = False
    over_memory: bool = False
    peak_memory: Bytes | None = None


class Processes(Protocol):
    """Processes by key: agents, attempts, model servers. Starting a key twice starts one process."""

    def start(self, process: Process, key: str) -> None: ...
    def poll(self) -> list[ProcessSnapshot]: ...
    def stop(self, key: str) -> None:
        """TERM now, KILL after the grace, to the whole tree. Returns at once; poll tells when it is gone."""
        ...

    def log(self, key: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes: ...
    def forget(self, key: str) -> None:
        """Drop what is kept of an ended process."""
        ...


class AttemptSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, placed: what an executor runs, where, within which limits."""

    attempt: str
    corner: str
    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...]
    node: str
    gpus: tuple[int, ...]
    memory: Bytes
    limit: Micros
    outputs: tuple[str, ...] = ()
    """Relative to cwd; the executor notes their state before the start and tells which are missing or old after it."""


class AttemptSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine knows of one attempt."""

    attempt: str
    state: Literal["waiting", "running", "exited", "lost"]
    exit_code: int | None = None
    started: Moment | None = None
    ended: Moment | None = None
    over_time: bool = False
    over_memory: bool = False
    peak_memory: Bytes | None = None
    missing_outputs: tuple[str, ...] = ()
    log_tail: str = ""


class Unreachable(msgspec.Struct, frozen=True):
    """The engine can't be asked just now; nothing may be concluded from it."""

    why: str


class NodeSnapshot(msgspec.Struct, frozen=True):
    """A node as the engine sees it."""

    name: str
    up: bool


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor really does on this host; shown on pages and stored with attempts."""

    name: str
    kill: Literal["cgroup", "process-tree", "process-group", "none"]
    memory: Literal["cgroup", "watched", "none"]
    devices: Literal["bound", "advised", "none"]
    isolation: Literal["none", "namespace", "uid+namespace"]


class Executor(Protocol):
    """Where attempts run. `key` is the attempt's id: submitting it twice runs it once."""

    def submit(self, spec: AttemptSpec, key: str) -> str: ...
    def cancel(self, attempt: str) -> None: ...
    def preempt(self, attempt: str) -> None: ...
    def poll(self) -> list[AttemptSnapshot] | Unreachable: ...
    def log(self, attempt: str, stream: Literal["out", "err"], offset: int, limit: int) -> bytes: ...
    def nodes(self) -> list[NodeSnapshot]: ...
    def capabilities(self) -> Capabilities: ...


class Homes(Protocol):
    """Corners' folders."""

    def open(self, corner: str) -> Path:
        """The corner's home, made when it isn't there."""
        ...

    def usage(self, corner: str) -> Bytes: ...


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a copy ended: `code` is empty when the artifact is kept."""

    copy: str
    code: str = ""
    evidence: str = ""
    artifact: Digest = Digest("")
    size: Bytes = Bytes(0)
    inspection: Inspection | None = None
    """What was found, when kept."""
    again: bool = False


class Vault(Protocol):
    """Kept artifacts by digest. Copies go on in children; a copy id started twice is one copy, resumed."""

    def copy(self, manifest: Manifest, source: Path, copy_id: str) -> None: ...
    def results(self) -> list[CopyResult]:
        """Copies that ended, until forgotten."""
        ...

    def progress(self, copy_id: str) -> Bytes: ...
    def path(self, digest: Digest) -> Path:
        """The kept folder; `KeyError` when it isn't kept."""
        ...

    def forget(self, copy_id: str) -> None: ...
    def drop(self, digest: Digest) -> None: ...


class Endpoint(msgspec.Struct, frozen=True):
    """Where a model server answers: a unix socket, and the model name to ask for."""

    socket: str
    model: str


class ModelServer(Protocol):
    """A served model: started, ready when it gave a real answer (F41), stopped."""

    def start(self, artifact: Path | None, settings: AnswerSettings, key: str) -> Endpoint: ...
    def list(self) -> list[str]: ...
    def stop(self, key: str) -> None: ...


class Question(msgspec.Struct, frozen=True):
    """One hidden question; `messages` are (role, content)."""

    id: str
    messages: tuple[tuple[str, str], ...]
    max_tokens: int


class Answer(msgspec.Struct, frozen=True):
    """One answer as the served model gave it; `finish` is `stop`, `length` or `error`."""

    id: str
    text: str
    finish: str


class Score(msgspec.Struct, frozen=True):
    """Correct answers out of n."""

    correct: int
    n: int


class Exam(Protocol):
    """The organiser's hidden exam, run as a child."""

    def questions(self, seed: str, n: int) -> list[Question]: ...
    def score(self, seed: str, n: int, answers: Sequence[Answer]) -> Score: ...


class PreparedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call as it goes to the upstream: the permitted changes are made, the real key is in `headers`."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    streamed: bool


class UpstreamAnswer(Protocol):
    """An upstream's answer, its body still to come."""

    status: int
    headers: Sequence[tuple[str, str]]

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes, as they arrive."""
        ...

    async def close(self) -> None: ...


class Upstream(Protocol):
    """The far end of the gateway."""

    async def open(self, call: PreparedCall) -> UpstreamAnswer:
        """`Broken` when it can't be reached."""
        ...
