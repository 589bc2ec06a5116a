"""The live stream: rows that became durable in, server-sent events out, from one ring that all clients share.

A client is a cursor, nothing more: no queue is kept for it. An event's id is its row's number in the journal, so a client
that comes back with the last id it saw gets exactly what it missed, from the ring or from the journal. One that was
away for too long, or reads too slowly to keep up, gets a single `resync` and loads its page anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

import msgspec

from palestra.events.codec import Row, read_entry
from palestra.events.public import PublicEvent, Roster, publish
from palestra.rules.errors import Corrupt
from palestra.web.pages.source import Source

HELD = 512
"""Events that the ring holds."""
REACH = 2_000
"""Rows of the journal, beyond the ring, that a returning client may have missed and still gets one by one."""
CLIENTS = 1_000
"""Open streams; who comes later is told to poll."""
BEAT = 15.0
"""Seconds of silence after which a comment shows that the stream lives."""
_BURST = 64


class Frame(msgspec.Struct, frozen=True):
    """A public event, and its bytes on the wire, made once for all clients."""

    event: PublicEvent
    data: bytes


class Ring:
    """What happened lately, for everyone at once."""

    def __init__(self, source: Source, held: int = HELD, reach: int = REACH) -> None:
        self._source = source
        self._reach = reach
        self._frames: deque[Frame] = deque(maxlen=held)
        self._missing = 0
        """The last public row that the ring doesn't hold any more: earlier ones are in the journal only."""
        self._woken = asyncio.Event()
        self.head = 0
        """The last row that was told, public or not."""
        self.clients = 0
        self.closed = False

    async def fill(self) -> None:
        """Take in the end of the journal, and follow it from there."""
        self._source.follow(self.take)
        head = self._source.view().state.seq
        start = max(0, head - self._reach)
        self._missing = start
        early = await self._source.rows(start, self._reach)
        held = [frame.event.seq for frame in self._frames]
        later, self._frames = list(self._frames), deque(maxlen=self._frames.maxlen)
        for frame in (*self._make(row for row in early if not held or row.seq < held[0]), *later):
            self._put(frame)
        self.head = max(self.head, early[-1].seq if early else 0)

    def take(self, rows: tuple[Row, ...]) -> None:
        """Rows that became durable; called on the loop."""
        new = [row for row in rows if row.seq > self.head]
        for frame in self._make(new):
            self._put(frame)
        if new:
            self.head = new[-1].seq
            self._wake()

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        self._wake()

    def latest(self, number: int) -> list[PublicEvent]:
        """The last events that have something to tell, newest first."""
        told = [frame.event for frame in reversed(self._frames) if frame.event.text]
        return told[:number]

    def after(self, seq: int) -> list[bytes] | None:
        """Frames after a row, a burst at most; None when the ring no longer reaches back so far."""
        if seq < self._missing:
            return None
        newer: list[bytes] = []
        for frame in reversed(self._frames):
            if frame.event.seq <= seq:
                break
            newer.append(frame.data)
        return newer[::-1]

    async def stream(self, seen: int | None) -> AsyncIterator[bytes]:
        """What a client gets that saw row `seen` last, or nothing yet."""
        self.clients += 1
        try:
            yield b"retry: 2000\n\n"
            cursor = self.head if seen is None else seen
            if cursor > self.head or cursor < self._missing - self._reach:  # too old, or not of this run
                cursor = self.head
                yield self._resync()
            elif cursor < self._missing:
                start, cursor = cursor, self._missing
                for frame in self._make(await self._source.rows(start, cursor - start)):
                    yield frame.data
            while not self.closed:
                sent = self.after(cursor)
                if sent is None:  # it read too slowly: the ring has gone round
                    sent = [self._resync()]
                cursor = self.head
                for place in range(0, len(sent), _BURST):
                    yield b"".join(sent[place : place + _BURST])
                if self.head <= cursor and not await self._more():
                    yield b": still here\n\n"
        finally:
            self.clients -= 1

    def _make(self, rows: Iterable[Row]) -> list[Frame]:
        roster = roster_of(self._source)
        return [Frame(event, _encode(event)) for event in (_public(row, roster) for row in rows) if event]

    def _put(self, frame: Frame) -> None:
        if len(self._frames) == self._frames.maxlen:
            self._missing = self._frames[0].event.seq
        self._frames.append(frame)

    def _resync(self) -> bytes:
        return b'id: %d\nevent: resync\ndata: {"seq":%d}\n\n' % (self.head, self.head)

    def _wake(self) -> None:
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    async def _more(self) -> bool:
        """Wait for the next rows; False when it was quiet for a while."""
        try:
            async with asyncio.timeout(BEAT):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True


def roster_of(source: Source) -> Roster:
    """Names and secrets as they are now."""
    state = source.view().state
    slots = state.opened is not None and any(node.gpu_kind == "slot" for node in state.rules.nodes)
    seats = tuple((seat.corner, seat.name) for seat in state.corners.values())
    return Roster(seats, source.secrets(), "slot" if slots else "GPU")


def _public(row: Row, roster: Roster) -> PublicEvent | None:
    try:
        return publish(read_entry(row), roster)
    except Corrupt:  # a kind that this release doesn't know: deny by default
        return None


def _encode(event: PublicEvent) -> bytes:
    data = {"seq": event.seq, "kind": event.kind, "corner": event.corner, "text": event.text}
    return b"id: %d\ndata: %s\n\n" % (event.seq, msgspec.json.encode(data))
