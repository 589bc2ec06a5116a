"""Collects requests that wait at the same time into batches: the model reads many prompts for little more than the price of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from palestra_kit.completions import Completion
from palestra_kit.generate import Answer, Ask, Sampling

# How long the first request of a batch waits for company. A client that sends many at once needs about this long to write them.
GATHER_SECONDS = 0.005
MOST_ROWS = 1_024

Generate = Callable[[str, Sequence[Ask], Sampling], list[Answer]]


class _Waiting(NamedTuple):
    completion: Completion
    answer: asyncio.Future[Answer]

    @property
    def tokens(self) -> int:
        return len(self.completion.ask.ids) + self.completion.ask.max_tokens


class Batches:
    """One batch at a time, oldest request first; those with the same model and sampling settings go along."""

    def __init__(self, generate: Generate, most_tokens: int) -> None:
        self._generate, self._most_tokens = generate, most_tokens
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "generate")

    async def answer(self, completion: Completion) -> Answer:
        waiting = _Waiting(completion, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.answer

    async def work(self) -> None:
        """Runs for ever. An error while generating goes to the requests of that batch and to nobody else."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER_SECONDS)
            batch = self._take()
            first = batch[0].completion
            asks = [one.completion.ask for one in batch]
            try:
                answers = await loop.run_in_executor(
                    self._thread, self._generate, first.model, asks, first.sampling
                )
            except Exception as error:
                for one in batch:
                    one.answer.set_exception(error)
            else:
                for one, answer in zip(batch, answers, strict=True):
                    one.answer.set_result(answer)

    def _take(self) -> list[_Waiting]:
        first, widest = self._waiting[0].completion, 0
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        for one in self._waiting:
            wider = max(widest, one.tokens)
            fits = not batch or (len(batch) < MOST_ROWS and wider * (len(batch) + 1) <= self._most_tokens)
            if fits and (one.completion.model, one.completion.sampling) == (first.model, first.sampling):
                batch.append(one)
                widest = wider
            else:
                rest.append(one)
        self._waiting = rest
        if not rest:
            self._arrived.clear()
        return batch
