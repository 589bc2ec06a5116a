"""Writes what every base model's folder holds beside its weights: tokenizer, chat template, and the sheet `base.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palestra_kit.chat import SHEET, Turn

# An output row much shorter than the usual one was never pushed anywhere: its token has hardly been trained.
UNTRAINED_NORM = 0.35


def write_tokenizer(folder: Path, tokenizer: Any, turn: Turn, end: str, context: int) -> None:
    """tokenizer.json, tokenizer_config.json and chat_template.jinja, so that other tools read the folder too."""
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(turn.template(), encoding="utf-8")
    config = {
        "clean_up_tokenization_spaces": False,
        "eos_token": end,
        "model_max_length": context,
        "pad_token": end,
        "padding_side": "left",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def write_sheet(
    folder: Path, name: str, licence: str, model: Any, tokenizer: Any, turn: Turn, end: str
) -> None:
    """base.json: what an entrant has to know about the base, generated from the model itself."""
    end_id = tokenizer.token_to_id(end)
    special = {
        id_: token.content for id_, token in tokenizer.get_added_tokens_decoder().items() if token.special
    }
    sheet = {
        "architecture": type(model).__name__,
        "context": model.config.max_position_embeddings,
        "format": "palestra-base/1",
        "licence": licence,
        "name": name,
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "special_tokens": [{"id": id_, "text": special[id_]} for id_ in sorted(special)],
        "stop_ids": [end_id],
        "turn": {"start": turn.start, "end": turn.end, "gap": turn.gap},
        "untrained_ids": untrained_ids(model),
        "vocabulary": model.config.vocab_size,
    }
    (folder / SHEET).write_text(json.dumps(sheet, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def untrained_ids(model: Any) -> list[int]:
    """Tokens whose output row is far shorter than the median row."""
    norms = model.get_output_embeddings().weight.detach().float().norm(dim=1)
    return [int(id_) for id_ in (norms < UNTRAINED_NORM * norms.median()).nonzero().flatten().tolist()]
