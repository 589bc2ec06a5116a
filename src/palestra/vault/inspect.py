"""Inspects a sealed folder against the base model: files in, an Inspection out, or a refusal with a code and evidence."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from palestra.events.nominations import Inspection
from palestra.rules.errors import Refusal
from palestra.vault.codes import BASE_MISMATCH, NOT_DERIVED, UNCHANGED_COPY
from palestra.vault.compare import Change, compare_pair, compare_tensor, relative
from palestra.vault.configs import compare_config, read_adapter, stop_notes
from palestra.vault.layout import CONFIG, Layout, read_layout
from palestra.vault.norms import Norms
from palestra.vault.outline import EMBEDDING, HEAD, match_adapter, match_full
from palestra.vault.weights import Opener, Weights, open_base

GENERATION = "generation_config.json"
TOKENS = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "eva")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Where an inspection says no, and where it only says so. An adapter is derived from the base by construction."""

    rank: int = 64
    cosine: float = 0.25
    """Between a full model and the base, mean over changed matrices; below it the model is taken for another one.

    Measured: models of the same shape from two seeds 0.001; the tiny base after 200 to 600 steps of full training at
    1e-3 to 5e-3, 0.94 to 0.55. Large models move far less (SmolLM2 after LoRA: above 0.99), so 0.9 is fit for them.
    """
    large_delta: float = 0.3
    """Above it the change is noted as unusually large."""
    small_delta: float = 1e-3
    """Below it the change is noted as unusually small."""
    unchanged_allowed: bool = False
    """Let the base model itself be nominated."""


def check_outline(names: Sequence[str], opener: Opener, base: Path, limits: Limits) -> Layout:
    """All that can be told without reading values: cheap enough to be done before a large copy (F29, F31)."""
    layout = read_layout(names)
    with open_base(base) as base_weights, Weights(layout, opener) as mine:
        _match(mine, base_weights, limits)
    return layout


def inspect(folder: Path, base: Path, limits: Limits, norms: Path | None = None) -> Inspection:
    """The whole inspection of a folder that no one else writes to. `norms` is a file where the base's norms are kept."""
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    layout = read_layout(names)
    with open_base(base) as base_weights, Weights(layout, lambda name: (folder / name).open("rb")) as mine:
        if layout.kind == "full":
            return _inspect_full(mine, base_weights, folder, base, limits)
        return _inspect_adapter(mine, base_weights, Norms(base_weights, base, norms), limits)


def _match(mine: Weights, base: Weights, limits: Limits) -> None:
    config = mine.json(mine.layout.config)
    if mine.layout.kind == "lora":
        match_adapter(mine, base, read_adapter(config, limits.rank))
    else:
        compare_config(config, base.json(CONFIG))
        match_full(mine, base)


def _inspect_full(
    mine: Weights, base: Weights, folder: Path, base_folder: Path, limits: Limits
) -> Inspection:
    config, base_config = mine.json(CONFIG), base.json(CONFIG)
    compare_config(config, base_config)
    pairs = match_full(mine, base)
    changes = {name: compare_tensor(mine, base, name, base_name) for name, base_name in pairs}
    _check_head(mine, base, changes)
    same = [change for change in changes.values() if change.zero]
    cast = sum(change.cast for change in same)
    if len(same) == len(changes) and not limits.unchanged_allowed:
        how = f", {cast} of them after a change of type" if cast else ""
        raise Refusal(
            UNCHANGED_COPY, f"all {len(changes)} tensors equal the base model's{how}: nothing was trained"
        )
    distance = relative(list(changes.values()))
    cosine = _mean_cosine([change for name, change in changes.items() if len(mine.tensors[name].shape) > 1])
    if cosine < limits.cosine:
        raise Refusal(
            NOT_DERIVED,
            f"the weights have a mean cosine of {cosine:.3g} with the base's and are {distance:.3g} of its norm away; "
            f"trained from the base they would have {limits.cosine:g} or more",
        )
    notes = [f"{cast} tensors equal the base's after a change of type"] if cast else []
    notes += (
        _distance_notes(distance, limits)
        + stop_notes(CONFIG, config, base_config)
        + _file_notes(mine, base, folder, base_folder)
    )
    return Inspection(
        kind="full", tensors=len(changes), identical=len(same), relative_delta=distance, notes=tuple(notes)
    )


def _check_head(mine: Weights, base: Weights, changes: dict[str, Change]) -> None:
    """Where the base's output layer is its embedding, one of its own would not be served: it must be the same matrix."""
    if HEAD not in mine.tensors or HEAD in base.tensors:
        return
    both = zip(mine.blocks(HEAD), mine.blocks(EMBEDDING), strict=True)
    same_type = mine.tensors[HEAD].dtype == mine.tensors[EMBEDDING].dtype
    if not same_type or not all(head.tobytes() == embedding.tobytes() for head, embedding in both):
        raise Refusal(
            BASE_MISMATCH,
            f"{HEAD} differs from {EMBEDDING}, but the base model ties them, so {HEAD} would not be served; "
            "train with tied embeddings",
        )
    del changes[HEAD]


def _inspect_adapter(mine: Weights, base: Weights, norms: Norms, limits: Limits) -> Inspection:
    config = mine.json(mine.layout.config)
    adapter = read_adapter(config, limits.rank)
    pairs = match_adapter(mine, base, adapter)
    changes = [compare_pair(mine, pair.a, pair.b, adapter.scale, norms.of(pair.base)) for pair in pairs]
    norms.save()
    zero = sum(change.zero for change in changes)
    if zero == len(changes) and not limits.unchanged_allowed:
        raise Refusal(
            UNCHANGED_COPY,
            f"all {zero} adapter deltas are zero: the answers would be the base model's, nothing was trained",
        )
    distance = relative(changes)
    notes = _distance_notes(distance, limits)
    if str(config.get("init_lora_weights")).lower().startswith(_CHANGES_BASE):
        notes.append(
            f"init_lora_weights is {config['init_lora_weights']!r}: the adapter is served on the unchanged base model"
        )
    return Inspection(
        kind="lora", tensors=len(changes), identical=zero, relative_delta=distance, notes=tuple(notes)
    )


def _mean_cosine(changes: Sequence[Change]) -> float:
    """Over changed matrices; 1 where none changed."""
    cosines = [change.cosine for change in changes if not change.zero and change.cosine is not None]
    return statistics.fmean(cosines) if cosines else 1.0


def _distance_notes(distance: float, limits: Limits) -> list[str]:
    change = f"the change is {distance:.2g} of the norm of what it changes"
    if distance < limits.small_delta:
        return [f"{change}, less than training usually makes"]
    return [f"{change}, which is unusually large"] if distance > limits.large_delta else []


def _file_notes(mine: Weights, base: Weights, folder: Path, base_folder: Path) -> list[str]:
    """Settings that travel with the weights and differ from the base's (F32)."""
    notes = []
    if (folder / GENERATION).is_file():
        has_one = (base_folder / GENERATION).is_file()
        notes += stop_notes(GENERATION, mine.json(GENERATION), base.json(GENERATION if has_one else CONFIG))
    for name in TOKENS:
        ours, theirs = folder / name, base_folder / name
        if ours.is_file() and theirs.is_file() and ours.read_bytes() != theirs.read_bytes():
            notes.append(f"{name} differs from the base model's")
    return notes
