"""The tree of errors, shown to everyone who meets one; raised anywhere, caught at the edges.

PalestraError
 ├── Refusal        the referee's reasoned no: a stable code, shown to entrants, never a fault
 ├── BadInput       a file, flag or body that can't be read: names field, value and what would be right
 ├── Broken         the world failed (engine, disk, upstream): the reconciler decides on a retry
 └── Corrupt        the journal contradicts itself: stop
"""

from __future__ import annotations


class PalestraError(Exception):
    """Anything Palestra says no to; `str()` of it is one sentence fit to be shown."""


class Refusal(PalestraError):
    """A reasoned no. `code` is stable; `facts` are figures a client may read; `retry` says that waiting can help."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        subject: str = "",
        retry: bool = False,
        facts: dict[str, str | int] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.subject = subject
        self.retry = retry
        self.facts: dict[str, str | int] = facts or {}


class BadInput(PalestraError):
    """Input that can't be read. `field` names it, `value` quotes it, `right` says what would be accepted."""

    def __init__(self, field: str, value: object, right: str) -> None:
        shown = value if isinstance(value, str) else repr(value)
        super().__init__(f"{field}: {shown!r} can't be read; {right}")
        self.field = field
        self.value = shown
        self.right = right


class Broken(PalestraError):
    """The world failed. `retry` tells the reconciler whether trying again may help."""

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


class Corrupt(PalestraError):
    """The journal contradicts itself: nothing more may be ruled on it."""
