"""Answers a batch of prompts: left-padded token ids in, texts out. Greedy answers don't depend on who shares the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from palestra_kit.chat import Chat


@dataclass(frozen=True, slots=True)
class Sampling:
    """What all rows of a batch share. Temperature 0 is greedy; a penalty of 1 is none."""

    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One row. `seed` drives this row's draws alone, so a sampled answer too is the same in any batch."""

    ids: Sequence[int]
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int = 0


class Answer(NamedTuple):
    """`tokens` counts everything generated, the end of turn included; `finish` is stop or length."""

    text: str
    tokens: int
    finish: str


class _Row:
    """One answer in the making."""

    def __init__(self, ask: Ask, room: int) -> None:
        self.ask = ask
        self.room = room
        self.rng = Random(ask.seed)
        self.ids: list[int] = []
        self.answer: Answer | None = None

    def take(self, token: int, chat: Chat) -> None:
        self.ids.append(token)
        if token in chat.stop_ids:
            self.answer = Answer(chat.decode(self.ids[:-1]), len(self.ids), "stop")
            return
        if self.ask.stop:
            text = chat.decode(self.ids)
            cuts = [at for at in (text.find(stop) for stop in self.ask.stop) if at >= 0]
            if cuts:
                self.answer = Answer(text[: min(cuts)], len(self.ids), "stop")
                return
        if len(self.ids) >= self.room:
            self.answer = Answer(chat.decode(self.ids), len(self.ids), "length")


def answer_batch(model: Any, chat: Chat, asks: Sequence[Ask], sampling: Sampling) -> list[Answer]:
    """One answer an ask, in order. Every prompt must leave room for at least one token in the model's context."""
    import torch

    rows = [_Row(ask, min(ask.max_tokens, chat.context - len(ask.ids))) for ask in asks]
    live = list(rows)
    with torch.inference_mode():
        state = _State(model, chat, [ask.ids for ask in asks], sampling)
        while True:
            tokens = state.choose([row.rng for row in live])
            for row, token in zip(live, tokens, strict=True):
                if row.answer is None:
                    row.take(token, chat)
            going = [at for at, row in enumerate(live) if row.answer is None]
            if not going:
                return [row.answer for row in rows if row.answer is not None]
            # Finished rows cost as much as live ones, but dropping them copies the cache: worth it once half are done.
            if len(going) <= len(live) // 2:
                live = [live[at] for at in going]
                tokens = [tokens[at] for at in going]
                state.keep(going)
            state.step(tokens)


class _State:
    """The tensors of a batch between two tokens: cache, mask, and which tokens each row has seen."""

    def __init__(self, model: Any, chat: Chat, prompts: Sequence[Sequence[int]], sampling: Sampling) -> None:
        import torch
        from transformers import DynamicCache

        self.model, self.sampling = model, sampling
        longest = max(len(ids) for ids in prompts)
        pads = [longest - len(ids) for ids in prompts]
        device = model.device
        tokens = torch.tensor(
            [[chat.pad_id] * pad + list(ids) for pad, ids in zip(pads, prompts, strict=True)], device=device
        )
        self.mask = torch.tensor(
            [[0] * pad + [1] * len(ids) for pad, ids in zip(pads, prompts, strict=True)], device=device
        )
        self.cache = DynamicCache(config=model.config)
        self.seen = torch.zeros(len(prompts), model.config.vocab_size + 1, dtype=torch.bool, device=device)
        if sampling.repetition_penalty != 1.0:
            # The extra column takes the padding, which nobody has seen.
            self.seen.scatter_(1, tokens.masked_fill(self.mask == 0, model.config.vocab_size), True)
        self._forward(tokens, (self.mask.cumsum(1) - 1).clamp(min=0))

    def step(self, tokens: list[int]) -> None:
        import torch

        column = torch.tensor(tokens, device=self.mask.device).unsqueeze(1)
        self.mask = torch.cat([self.mask, torch.ones_like(column)], dim=1)
        if self.sampling.repetition_penalty != 1.0:
            self.seen.scatter_(1, column, True)
        self._forward(column, self.mask.sum(1, keepdim=True) - 1)

    def keep(self, rows: list[int]) -> None:
        import torch

        index = torch.tensor(rows, device=self.mask.device)
        self.mask, self.seen = self.mask[index], self.seen[index]
        self.cache.batch_select_indices(index)

    def choose(self, rngs: Sequence[Random]) -> list[int]:
        import torch

        scores = self.logits
        penalty, temperature = self.sampling.repetition_penalty, self.sampling.temperature
        if penalty != 1.0:
            pushed = torch.where(scores > 0, scores / penalty, scores * penalty)
            scores = torch.where(self.seen[:, :-1], pushed, scores)
        if temperature == 0.0:
            return [int(token) for token in scores.argmax(1).tolist()]
        chances, order = torch.softmax(scores.double() / temperature, dim=1).sort(
            dim=1, descending=True, stable=True
        )
        reached = chances.cumsum(1)
        # A token counts while the ones before it fall short of top_p, so the likeliest always does.
        chances = chances.masked_fill(reached - chances >= self.sampling.top_p, 0.0)
        reached = chances.cumsum(1)
        draws = torch.tensor([[rng.random()] for rng in rngs], dtype=torch.float64, device=scores.device)
        picked = torch.searchsorted(reached, draws * reached[:, -1:], right=True).clamp(
            max=scores.shape[1] - 1
        )
        return [int(token) for token in order.gather(1, picked).squeeze(1).tolist()]

    def _forward(self, tokens: Any, positions: Any) -> None:
        self.logits = (
            self.model(
                input_ids=tokens,
                attention_mask=self.mask,
                position_ids=positions,
                cache=self.cache,
                use_cache=True,
                logits_to_keep=1,
            )
            .logits[:, -1]
            .float()
        )
