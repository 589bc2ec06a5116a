"""`arena logs`: what a job has printed, from the arena to standard output, byte for byte."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from urllib.parse import quote

from palestra.client.connection import Connection, from_environment
from palestra.client.errors import BadUsage, Refused
from palestra.client.options import declare_json
from palestra.client.show import print_json

CHUNK = 65_536  # bytes a request
LARGEST = 1 << 20  # bytes; the most that one request may ask for
NOT_STARTED = "not_started"
"""The refusal for a job that can't have printed anything yet."""


def declare_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job, such as A-j17")
    parser.add_argument(
        "--err", action="store_true", help="its standard error; unless given, its standard output"
    )
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines")
    parser.add_argument("--follow", action="store_true", help="go on until the job has ended")
    declare_json(parser)


def logs(options: argparse.Namespace) -> int:
    if options.tail is not None and options.tail < 0:
        raise BadUsage(f"--tail {options.tail}: a number of lines, 0 or more")
    if options.follow and options.json:
        raise BadUsage("--follow writes bytes as they come; it can't be one JSON answer")
    log = Log(from_environment(), options.id, "err" if options.err else "out")
    if options.follow:
        chunks = log.follow(options.tail)
    else:
        chunks = log.read(0) if options.tail is None else iter([log.tail(options.tail)])
    if options.json:
        print_json(_as_json(log, b"".join(chunks)))
        return 0
    sys.stdout.flush()
    for chunk in chunks:
        _write(chunk)
    return 0


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Log:
    """One stream of one job's output."""

    def __init__(self, arena: Connection, job: str, stream: str) -> None:
        self.arena = arena
        self.job = job
        self.stream = stream

    def piece(self, offset: int, limit: int = CHUNK) -> bytes:
        """At most `limit` bytes from `offset`, or from so many bytes before the end where it is negative."""
        query = f"stream={self.stream}&offset={offset}&limit={limit}"
        return self.arena.fetch("GET", f"/arena/jobs/{quote(self.job, safe='')}/log?{query}").body

    def read(self, offset: int) -> Iterator[bytes]:
        """All there is from `offset` on."""
        while data := self.piece(offset):
            yield data
            offset += len(data)

    def follow(self, lines: int | None) -> Iterator[bytes]:
        """All there is, or its last lines, and then all there will be until the job has ended."""
        offset, first = 0, True
        while True:
            job = self.arena.ask(
                "GET", f"/arena/jobs/{quote(self.job, safe='')}{'' if first else '?wait=1'}", wait=1
            )
            kept = b""
            for data in self._read_started(offset):
                offset += len(data)
                if first and lines is not None:
                    kept = _last_lines(kept + data, lines)
                else:
                    yield data
            if kept:
                yield kept
            if job["state"] == "ended":  # asked before reading, so nothing can have come since
                return
            first = False

    def _read_started(self, offset: int) -> Iterator[bytes]:
        try:
            yield from self.read(offset)
        except Refused as no:
            if no.code != NOT_STARTED:
                raise

    def tail(self, lines: int) -> bytes:
        """The last lines; a log whose last lines are very long is read from its beginning."""
        for size in (CHUNK, LARGEST):
            data = self.piece(-size, size)
            kept = _last_lines(data, lines)
            if len(data) < size or len(kept) < len(data):
                return kept
        kept = b""
        for data in self.read(0):
            kept = _last_lines(kept + data, lines)
        return kept


def _last_lines(data: bytes, lines: int) -> bytes:
    """The last lines as they are; only a line feed ends one."""
    at = len(data) - 1  # a line feed at the very end ends the last line, it doesn't begin another
    for _ in range(lines):
        at = data.rfind(b"\n", 0, max(at, 0))
        if at < 0:
            return data
    return data[at + 1 :] if lines else b""


def _as_json(log: Log, data: bytes) -> dict[str, str]:
    answer = {"job": log.job, "stream": log.stream}
    try:
        return answer | {"text": data.decode()}
    except UnicodeDecodeError:
        return answer | {"base64": base64.b64encode(data).decode()}
