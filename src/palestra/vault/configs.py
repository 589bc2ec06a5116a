"""Compares configurations: a model's `config.json` with the base's, and what an `adapter_config.json` asks for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palestra.rules.errors import Refusal
from palestra.vault.codes import ADAPTER_UNSUPPORTED, BASE_MISMATCH, NOT_LOADABLE, RANK_TOO_HIGH

LARGEST = 32 << 20
"""Bytes of JSON that are read."""
COMPARED = (
    "architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "attention_bias",
    "mlp_bias", "tie_word_embeddings", "sliding_window",
)  # fmt: skip
"""Fields that decide what the weights compute; one left out stands for the base's value."""
_PLAIN_ONLY = (
    "modules_to_save", "trainable_token_indices", "rank_pattern", "alpha_pattern", "use_dora", "layer_replication",
    "lora_bias", "fan_in_fan_out", "target_parameters",
)  # fmt: skip

Json = Mapping[str, Any]


def read_json(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object, or a refusal that names the file."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refusal(NOT_LOADABLE, f"{name} is not JSON: {str(error)[:200]}", subject=name) from None
    if not isinstance(value, dict):
        raise Refusal(NOT_LOADABLE, f"{name} does not hold a JSON object", subject=name)
    return value


def compare_config(mine: Json, base: Json) -> None:
    """Refuse a full model whose configuration makes it another model than the base."""
    if mine.get("auto_map"):
        raise Refusal(
            NOT_LOADABLE,
            "config.json: auto_map asks for code of its own; only the base's architecture is served",
        )
    if mine.get("quantization_config"):
        raise Refusal(
            NOT_LOADABLE, "config.json: quantization_config is set; nominate plain floating-point weights"
        )
    for field in COMPARED:
        if field in mine and field in base and mine[field] != base[field]:
            raise _differs(field, base[field], mine[field])
    for field, value in _rotary(mine).items():
        wanted = _rotary(base).get(field)
        if wanted is not None and not _same(value, wanted):
            raise _differs(field, wanted, value)


def _rotary(config: Json) -> dict[str, Any]:
    """Rotary settings under one spelling: they moved from top-level fields into `rope_parameters`."""
    inner = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(inner, dict):
        return {}
    theta = inner.get("rope_theta", config.get("rope_theta"))
    kind = inner.get("rope_type", inner.get("type", "default"))
    return {"rope_type": kind, **({} if theta is None else {"rope_theta": theta})}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _differs(field: str, wanted: Any, found: Any) -> Refusal:
    return Refusal(
        BASE_MISMATCH, f"config.json: {field} is {_short(found)}, the base model's is {_short(wanted)}"
    )


def _short(value: Any) -> str:
    return repr(value)[:100]


def stop_notes(name: str, mine: Json, base: Json) -> list[str]:
    """Said, not refused: an end token other than the base's is where answers that never stop come from (F32)."""
    if "eos_token_id" in mine and mine["eos_token_id"] != base.get("eos_token_id"):
        return [
            f"{name}: eos_token_id is {_short(mine['eos_token_id'])}, the base model's is {_short(base.get('eos_token_id'))}"
        ]
    return []


class Adapter(msgspec.Struct, frozen=True):
    """What an adapter's configuration asks for: delta = scale * B A on every target. `targets` None: not a list of names."""

    rank: int
    scale: float
    targets: tuple[str, ...] | None
    layers: frozenset[int] | None


def read_adapter(config: Json, most_rank: int) -> Adapter:
    """Only plain LoRA at a rank that is served; whatever else trains but can't be served is refused by name (F31)."""
    if config.get("peft_type") != "LORA":
        raise _unsupported(f"peft_type is {_short(config.get('peft_type'))}; only LORA is served")
    for field in _PLAIN_ONLY:
        if config.get(field):
            raise _unsupported(
                f"{field} is set; only plain LoRA matrices are served, save a full model instead"
            )
    if config.get("bias", "none") != "none":
        raise _unsupported(f"bias is {_short(config['bias'])}; only 'none' is served")
    rank, alpha = config.get("r"), config.get("lora_alpha", config.get("r"))
    if type(rank) is not int or rank < 1:
        raise _unsupported(f"r is {_short(rank)}; it must be a whole number from 1 to {most_rank}")
    if rank > most_rank:
        raise Refusal(RANK_TOO_HIGH, f"adapter_config.json: r is {rank}; at most {most_rank} is served")
    if type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise _unsupported(f"lora_alpha is {_short(alpha)}; it must be a finite number")
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return Adapter(rank, scale, _targets(config), _layers(config.get("layers_to_transform")))


def _targets(config: Json) -> tuple[str, ...] | None:
    """The declared modules, where they are names; a pattern, or names less a pattern, can't be checked for completeness."""
    targets = config.get("target_modules")
    if (
        not isinstance(targets, list)
        or not all(isinstance(one, str) for one in targets)
        or config.get("exclude_modules")
    ):
        return None
    return tuple(sorted(targets))


def _layers(value: Any) -> frozenset[int] | None:
    if value is None:
        return None
    listed: Sequence[Any] = value if isinstance(value, list) else [value]
    if not all(type(one) is int for one in listed):
        raise _unsupported(f"layers_to_transform is {_short(value)}; it must be a list of layer numbers")
    return frozenset(listed)


def _unsupported(what: str) -> Refusal:
    return Refusal(ADAPTER_UNSUPPORTED, f"adapter_config.json: {what}")


def is_declared(module: str, adapter: Adapter) -> bool:
    """Whether the configuration says that this module of the base has a delta."""
    names = adapter.targets or ()
    if not any(module == name or module.endswith("." + name) for name in names):
        return False
    layer = re.search(r"\.layers\.(\d+)\.", module)
    return adapter.layers is None or (layer is not None and int(layer[1]) in adapter.layers)
