"""What a sealed folder is, told from its file names alone: adapter or full model, and which files hold the weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from palestra.events.nominations import Kind
from palestra.rules.errors import Refusal
from palestra.vault.codes import FORBIDDEN_FILE, NOT_LOADABLE

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
ALLOWED = (".safetensors", ".json", ".txt", ".model", ".jinja", ".md")
_MODEL_WEIGHTS = re.compile(r"model[^/]*\.safetensors")


class Layout(msgspec.Struct, frozen=True):
    """The files that decide what is served. `index` says which shard holds which tensor, where there is one."""

    kind: Kind
    config: str
    weights: tuple[str, ...]
    index: str | None = None


def read_layout(names: Sequence[str]) -> Layout:
    """The layout of a nominated folder; `Refusal` when a file may not be there or the kind is unclear."""
    for name in names:
        if not name.endswith(ALLOWED):
            raise Refusal(
                FORBIDDEN_FILE,
                f"{name} may not be nominated: only {', '.join('*' + ending for ending in ALLOWED)}. "
                "Seal a folder without resume state, pickles and code",
                subject=name,
            )
    adapter = {ADAPTER_CONFIG, ADAPTER_WEIGHTS} <= set(names)
    full = CONFIG in names and any(_MODEL_WEIGHTS.fullmatch(name) for name in names)
    if adapter and full:
        raise Refusal(NOT_LOADABLE, "the folder holds an adapter and a full model; seal the one to be judged")
    if not adapter and not full:
        raise Refusal(NOT_LOADABLE, _what_is_missing(names))
    layout = Layout("lora", ADAPTER_CONFIG, (ADAPTER_WEIGHTS,)) if adapter else full_layout(names)
    # Some servers load every weight file they find: one that is not inspected must not be there.
    for name in names:
        if name.endswith(".safetensors") and name not in layout.weights:
            raise Refusal(
                FORBIDDEN_FILE,
                f"{name} is not part of the {layout.kind} model that the folder holds",
                subject=name,
            )
    return layout


def full_layout(names: Sequence[str]) -> Layout:
    """The layout of a full model's folder, whatever else it holds."""
    weights = tuple(sorted(name for name in names if _MODEL_WEIGHTS.fullmatch(name)))
    if CONFIG not in names or not weights:
        raise Refusal(NOT_LOADABLE, _what_is_missing(names))
    return Layout("full", CONFIG, weights, INDEX if INDEX in names else None)


def _what_is_missing(names: Sequence[str]) -> str:
    right = f"an adapter has {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}, a full model has {CONFIG} and model*.safetensors"
    below = [name for name in names if PurePosixPath(name).name in (ADAPTER_CONFIG, CONFIG) and "/" in name]
    if below:
        return f"the weights seem to lie in {PurePosixPath(below[0]).parent}/; seal that folder: {right}"
    return f"neither an adapter nor a full model: {right}"
