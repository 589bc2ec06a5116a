"""The waiting line of one corner: calls that money or a pause holds up go in, in order, and come out with the desk's ruling."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from palestra.referee.requests import Receipt
from palestra.rules.errors import Refusal

Ask = Callable[[], Awaitable[Receipt | Refusal]]


class Line:
    """First come, first served: while someone waits, only the first asks the desk again, whenever something moved."""

    def __init__(self) -> None:
        self._turns: deque[asyncio.Event] = deque()
        self._moves = 0

    async def admit(
        self, ask: Ask, *, wait: float, ask_again: float, gave_up: Callable[[], bool]
    ) -> Receipt | Refusal | None:
        """The desk's ruling, after waiting at most `wait` seconds where waiting can help; None for who gave up unasked.

        An ask that has begun is never abandoned: the desk may have granted it.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        answer: Receipt | Refusal | None = None
        moves = self._moves
        if not self._turns:
            answer = await ask()
            if not _may_change(answer):
                return answer
        turn = asyncio.Event()
        self._turns.append(turn)
        if moves != self._moves:
            turn.set()
        try:
            while not gave_up() and (left := deadline - clock()) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, ask_again)):
                        await turn.wait()
                turn.clear()
                if self._turns[0] is turn and not gave_up():
                    answer = await ask()
                    if not _may_change(answer):
                        return answer
            if answer is None and not gave_up():
                answer = await ask()
            return answer
        finally:
            first = self._turns[0] is turn
            self._turns.remove(turn)
            if first:
                self.move()

    def move(self) -> None:
        """Money came free, or something else changed: the first in line asks again."""
        self._moves += 1
        if self._turns:
            self._turns[0].set()

    def rouse(self) -> None:
        """Everyone looks whether they still want to wait."""
        self._moves += 1
        for turn in self._turns:
            turn.set()


def _may_change(answer: Receipt | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.retry
