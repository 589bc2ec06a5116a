"""What a harness is told of its corner, and the environment that every agent's process gets from it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from palestra.ports import Process

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A corner's facts, all paths absolute."""

    corner: str
    session: str
    home: str
    socket: str
    """The corner's unix socket: the arena and the gateway answer on it."""
    token: str
    arena: str
    """The `arena` command (the zipapp). Its folder goes first on the PATH, so its file must be named `arena`."""
    python: str
    """The interpreter that runs the house harness."""
    base: str
    """The base model's folder."""
    data: str
    """The folder with the read-only data, below the home."""
    model: str = ""
    """The model that the agent calls through the gateway."""
    command: tuple[str, ...] = ()
    """The argv of the `command` harness."""
    environment: tuple[str, ...] = ()
    """Folders put on the PATH before the system's: the environment that shells and jobs run in."""


Launch = Callable[[Seat], Process]
"""A harness: pure, so that what is started can be seen and tested without starting it."""


def environment(seat: Seat, **more: str) -> tuple[tuple[str, str], ...]:
    """The whole environment of an agent's process, sorted by name: nothing of the server's own leaks in."""
    path = (seat.arena.rpartition("/")[0], *seat.environment, *SYSTEM_PATH)
    names = {
        "HOME": seat.home,
        "PATH": ":".join(dict.fromkeys(path)),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
        "PALESTRA_SOCKET": seat.socket,
        "PALESTRA_TOKEN": seat.token,
        "PALESTRA_CORNER": seat.corner,
        "PALESTRA_SESSION": seat.session,
        "PALESTRA_MODEL": seat.model,
        "PALESTRA_BASE": seat.base,
        "PALESTRA_DATA": seat.data,
        **more,
    }
    return tuple(sorted(names.items()))
