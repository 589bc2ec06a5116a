"""Compares names and shapes with the base's, before a single value is read: weights in, matched pairs or a refusal out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from palestra.rules.errors import Refusal
from palestra.vault.codes import ADAPTER_INCOMPLETE, ADAPTER_UNMATCHED, ADAPTER_UNSUPPORTED, BASE_MISMATCH
from palestra.vault.configs import Adapter, is_declared
from palestra.vault.safetensors import FLOATS
from palestra.vault.weights import Weights

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
_PREFIX = "base_model.model."
_FACTOR = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.weight")


class Pair(msgspec.Struct, frozen=True):
    """One module's adapter matrices, and the base tensor they change."""

    a: str
    b: str
    base: str


def match_full(mine: Weights, base: Weights) -> list[tuple[str, str]]:
    """Each tensor with the base's tensor it came from. All must be there, with the base's shapes, as floats."""
    names = dict.fromkeys(mine.tensors)
    tied = HEAD in names and HEAD not in base.tensors and EMBEDDING in base.tensors
    pairs = [(name, EMBEDDING if tied and name == HEAD else name) for name in names]
    missing = [
        name for name in base.tensors if name not in names and not (name == HEAD and EMBEDDING in names)
    ]
    unknown = [name for name, base_name in pairs if base_name not in base.tensors]
    if missing or unknown:
        parts = [_count(missing, "missing"), _count(unknown, "unknown to the base model")]
        raise Refusal(
            BASE_MISMATCH, "tensors differ from the base model's: " + "; ".join(filter(None, parts))
        )
    for name, base_name in pairs:
        shape, wanted = mine.tensors[name].shape, base.tensors[base_name].shape
        if shape != wanted:
            raise Refusal(
                BASE_MISMATCH, f"tensor {name!r} has shape {list(shape)}, the base model's is {list(wanted)}"
            )
    _check_floats(mine, BASE_MISMATCH)
    return pairs


def match_adapter(mine: Weights, base: Weights, adapter: Adapter) -> list[Pair]:
    """Each A and B with the module they change. Every one must be applied, at the declared rank, on every target (F30)."""
    factors: dict[str, dict[str, str]] = {}
    for name in mine.tensors:
        found = _FACTOR.fullmatch(name)
        if not found:
            raise Refusal(
                ADAPTER_UNSUPPORTED, f"tensor {name!r} is not a LoRA A or B matrix; only these are served"
            )
        if found[2] in factors.setdefault(found[1], {}):
            raise Refusal(ADAPTER_UNSUPPORTED, f"module {found[1]!r} has lora_{found[2]} twice")
        factors[found[1]][found[2]] = name
    modules = {module: _base_tensor(module, base) for module in factors}
    lost = [module for module, tensor in modules.items() if not tensor]
    if lost or not factors:
        raise Refusal(
            ADAPTER_UNMATCHED,
            f"{len(lost)} of {len(factors)} adapted modules don't exist in the base model, so they would have no effect"
            + (f", for example {lost[0]!r}; names start with {_PREFIX!r}" if lost else ""),
        )
    pairs = [_pair(module, factors[module], modules[module], mine, base, adapter) for module in factors]
    _check_complete({pair.base for pair in pairs}, base, adapter)
    _check_floats(mine, ADAPTER_UNSUPPORTED)
    return pairs


def _base_tensor(module: str, base: Weights) -> str:
    """The name of the weight that a module's adapter changes; empty when the base has no such module."""
    if not module.startswith(_PREFIX):
        return ""
    weight = module.removeprefix(_PREFIX) + ".weight"
    if weight == HEAD and HEAD not in base.tensors:
        weight = EMBEDDING
    return weight if weight in base.tensors and len(base.tensors[weight].shape) == 2 else ""


def _pair(
    module: str, names: dict[str, str], weight: str, mine: Weights, base: Weights, adapter: Adapter
) -> Pair:
    for side in ("A", "B"):
        if side not in names:
            raise Refusal(ADAPTER_INCOMPLETE, f"module {module!r} has no lora_{side}")
    out, into = base.tensors[weight].shape
    for side, wanted in (("A", (adapter.rank, into)), ("B", (out, adapter.rank))):
        shape = mine.tensors[names[side]].shape
        if shape != wanted:
            raise Refusal(
                BASE_MISMATCH,
                f"tensor {names[side]!r} has shape {list(shape)}; rank {adapter.rank} on the base model's "
                f"{weight} {[out, into]} needs {list(wanted)}",
            )
    return Pair(names["A"], names["B"], weight)


def _check_complete(adapted: set[str], base: Weights, adapter: Adapter) -> None:
    if adapter.targets is None:
        return
    modules = {
        name.removesuffix(".weight"): name for name, tensor in base.tensors.items() if len(tensor.shape) == 2
    }
    for target in adapter.targets:
        if not any(
            name == target or name.endswith("." + target) for name in (*modules, HEAD.removesuffix(".weight"))
        ):
            raise Refusal(
                ADAPTER_UNMATCHED,
                f"adapter_config.json: target module {target!r} does not exist in the base model",
            )
    lost = [name for module, name in modules.items() if is_declared(module, adapter) and name not in adapted]
    if lost:
        raise Refusal(
            ADAPTER_INCOMPLETE,
            f"adapter_config.json declares modules that have no matrices: {_count(lost, 'missing')}",
        )


def _check_floats(mine: Weights, code: str) -> None:
    for name, tensor in mine.tensors.items():
        if tensor.dtype not in FLOATS:
            raise Refusal(
                code, f"tensor {name!r} has type {tensor.dtype}; weights must be one of {', '.join(FLOATS)}"
            )


def _count(names: Sequence[str], what: str) -> str:
    shown = ", ".join(repr(name)[:120] for name in names[:3])
    return f"{len(names)} {what}, for example {shown}" if names else ""
