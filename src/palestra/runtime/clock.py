"""The one clock of a run: wall time when the server starts, then only what really went by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from palestra.rules.units import SECOND, Moment

DRIFT = 2 * SECOND
"""A wall clock that strays further from ours is an alarm; ours never jumps (F56)."""


def _wall() -> int:
    return time.time_ns() // 1000


def _since_boot() -> int:
    """Microseconds that went by, suspends included; macOS has no BOOTTIME, and its MONOTONIC counts them too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class RunClock:
    """UTC microseconds that never decrease: max(wall, last) at start, then boot-time deltas, which count suspends."""

    def __init__(
        self, last: int = 0, *, wall: Callable[[], int] = _wall, since_boot: Callable[[], int] = _since_boot
    ) -> None:
        """`last` is the last instant on the record; the two clocks are read in microseconds."""
        self._wall = wall
        self._since_boot = since_boot
        self._anchor = max(wall(), last)
        self._boot = since_boot()

    def now(self) -> Moment:
        """This instant."""
        return Moment(self._anchor + self._since_boot() - self._boot)

    async def sleep_until(self, moment: Moment) -> None:
        """Return at `moment` or soon after it."""
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  # a sleep may end early; there is nothing to wait on
            await asyncio.sleep(left / SECOND)

    def drift(self) -> int:
        """Microseconds that the wall clock is ahead of this one; beyond `DRIFT` an organiser must know."""
        return self._wall() - self.now()


class VirtualClock:
    """A clock that moves when told: for simulations and tests."""

    def __init__(self, at: int = 0) -> None:
        self._at = at

    def now(self) -> Moment:
        """This instant."""
        return Moment(self._at)

    def move_to(self, moment: int) -> None:
        """Go on to `moment`; earlier ones are ignored."""
        self._at = max(self._at, moment)

    async def sleep_until(self, moment: Moment) -> None:
        """Go there at once."""
        self.move_to(moment)
