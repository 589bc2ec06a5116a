"""The client's tree of errors: raised by verbs, turned into one sentence and an exit code by `arena`.

ArenaError
 ├── Refused        the arena said no, or would: a stable code and a sentence          exit 1
 ├── BadUsage       the command line can't be meant like this                          exit 2
 └── Unreachable    no answer from the server, after waiting for it                    exit 3
"""

from __future__ import annotations

from typing import Any


class ArenaError(Exception):
    """`str()` of it is one sentence fit to be shown."""

    exit_code = 1

    def as_json(self) -> dict[str, Any]:
        """The body that `--json` prints."""
        return {"error": {"code": type(self).__name__.lower(), "message": str(self)}}


class Refused(ArenaError):
    """A no with a stable code. `field`, `value` and `facts` are the server's, where it gave them."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str = "",
        value: object = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.value = value
        self.facts = facts or {}

    def as_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.field:
            error |= {"field": self.field, "value": self.value}
        if self.facts:
            error["facts"] = self.facts
        return {"error": error}


class BadUsage(ArenaError):
    """What was typed can't be carried out as typed."""

    exit_code = 2


class Unreachable(ArenaError):
    """The server didn't answer, or answered with a fault of its own."""

    exit_code = 3
