"""Server-sent events: bytes of a stream in, whole events out, nothing re-encoded."""

from __future__ import annotations

import re

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")
_LONGEST_BLANK = 4


class Events:
    """Cuts a stream into its events, each with the blank line that ends it; their bytes in order are the stream's own."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes."""
        seen = max(0, len(self._rest) - _LONGEST_BLANK + 1)
        data = self._rest + chunk
        if b"\r" not in data:  # nearly always, and then splitting is much quicker than matching
            *parts, self._rest = data.split(b"\n\n")
            return [part + b"\n\n" for part in parts]
        events, start = [], 0
        for blank in _BLANK.finditer(data, seen):
            events.append(data[start : blank.end()])
            start = blank.end()
        self._rest = data[start:]
        return events

    def rest(self) -> bytes:
        """What is left when the stream ended without a blank line."""
        rest, self._rest = self._rest, b""
        return rest


def data_of(event: bytes) -> bytes:
    """The event's data: its `data:` lines joined; empty for comments and pings."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[6:-2]
    lines = [line[5:].removeprefix(b" ") for line in _LINE.split(event) if line.startswith(b"data:")]
    return b"\n".join(lines)
