"""Trains the tiny base model from scratch: a character-level Llama of about 116,000 parameters that knows three of the six families."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from palestra_kit.chat import SHEET, Chat, Turn
from palestra_kit.errors import KitError
from palestra_kit.folders import new_folder
from palestra_kit.models.sheet import write_sheet, write_tokenizer
from palestra_kit.rows import Message
from palestra_kit.tasks import Item, check
from palestra_kit.tasks.tiny import KNOWN_TO_BASE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|end|>"
TURN = Turn(start="<|{role}|>", end=END, gap="")
SPECIAL = (END, "<|system|>", "<|user|>", "<|assistant|>", "<|unknown|>")
CHARACTERS = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789[]()+-=.,:;!?'\"\n"
CONTEXT = 256

BATCH = 32
LEARNING_RATE = 2e-3
# Prompts hold random letters that nobody can foretell; a tenth of their loss helps the model to copy, all of it drowns the rest.
PROMPT_WEIGHT = 0.1
# The model learns to copy in one jump, usually between step 150 and 300; training stops at the first good check after it.
CHECK_EVERY, FIRST_CHECK, LAST_STEP = 50, 250, 800
GOOD_ENOUGH = 0.995
CHECKED = 200


def build(out: Path, seed: int, say: Callable[[str], None]) -> None:
    """Train and write the folder. One thread and one seed give the same bytes on the same machine."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = _tokenizer()
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        tie_word_embeddings=False,
        dtype="float32",
    )
    config.architectures = ["LlamaForCausalLM"]
    model: Any = LlamaForCausalLM(config)
    with new_folder(out) as folder:
        write_tokenizer(folder, tokenizer, TURN, END, CONTEXT)
        write_sheet(folder, "palestra-tiny", "Apache-2.0", model, tokenizer, TURN, END)
        _train(model, Chat.load(folder), seed, say)
        (folder / SHEET).unlink()
        write_sheet(folder, "palestra-tiny", "Apache-2.0", model, tokenizer, TURN, END)
        config.to_json_file(folder / "config.json")
        save_file(
            {name: tensor.contiguous() for name, tensor in model.state_dict().items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )


def _tokenizer() -> Tokenizer:
    """One token a character: byte-pair encoding without a single merge."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    vocabulary = {token: id_ for id_, token in enumerate((*SPECIAL, *CHARACTERS))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<|unknown|>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def _train(model: Any, chat: Chat, seed: int, say: Callable[[str], None]) -> None:
    import torch

    rng = Random(f"palestra tiny base {seed}")
    held_out = _questions(Random(f"palestra tiny base check {seed}"), CHECKED)
    kept_back = {prompt for prompt, _ in held_out}
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    share = 0.0
    for step in range(1, LAST_STEP + 1):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / 20) * max(0.1, 1 - step / 600)
        loss = _loss(model, chat, [one for one in _questions(rng, BATCH) if one.prompt not in kept_back])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % CHECK_EVERY == 0 and step >= FIRST_CHECK:
            share = _share_right(model, chat, held_out)
            say(f"step {step}: loss {loss.item():.3f}, {share:.1%} of held-out questions right")
            if share >= GOOD_ENOUGH:
                return
    raise KitError(f"the tiny model got only {share:.0%} right after {LAST_STEP} steps; try another --seed")


def _loss(model: Any, chat: Chat, questions: list[Item]) -> Any:
    """Mean loss of a batch, answers in full and prompts by PROMPT_WEIGHT."""
    import torch
    from torch.nn.functional import cross_entropy

    encoded = [
        chat.encode([Message("user", one.prompt), Message("assistant", one.answer)], answer_next=False)
        for one in questions
    ]
    width = max(len(one.ids) for one in encoded)
    ids = torch.tensor([one.ids + [chat.pad_id] * (width - len(one.ids)) for one in encoded])
    weights = torch.tensor(
        [
            [1.0 if one else PROMPT_WEIGHT for one in row.trained] + [0.0] * (width - len(row.ids))
            for row in encoded
        ]
    )[:, 1:]
    logits = model(input_ids=ids[:, :-1]).logits
    losses = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


def _questions(rng: Random, count: int) -> list[Item]:
    kinds = [rng.choice(KNOWN_TO_BASE) for _ in range(count)]
    return [one.make(rng, one.templates + one.held_back) for one in kinds]


def _share_right(model: Any, chat: Chat, questions: list[Item]) -> float:
    from palestra_kit.generate import Ask, Sampling, answer_batch

    asks = [Ask(chat.encode([Message("user", prompt)], answer_next=True).ids, 8) for prompt, _ in questions]
    answers = answer_batch(model.eval(), chat, asks, Sampling())
    model.train()
    return sum(
        check(right, given.text).strict for (_, right), given in zip(questions, answers, strict=True)
    ) / len(questions)
