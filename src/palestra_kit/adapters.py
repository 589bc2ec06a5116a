"""Models that answer under several names: one set of weights in memory, LoRA adapters beside it, switched from batch to batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from palestra_kit.errors import KitError
from palestra_kit.weights import read_json, read_tensors

PLAIN_ONLY = (
    "modules_to_save",
    "trainable_token_indices",
    "rank_pattern",
    "alpha_pattern",
    "use_dora",
    "layer_replication",
    "lora_bias",
    "fan_in_fan_out",
    "target_parameters",
)


class Loaded:
    """Weights in memory that answer under names: the base or a full model, and any number of LoRA adapters on it."""

    def __init__(self, model: Any, own_name: str) -> None:
        self.model = model
        self.own_name = own_name
        self._inside: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        return [self.own_name, *self._inside]

    def add(self, name: str, folder: Path, max_rank: int) -> None:
        """Load one adapter. Refuses one that would not be applied in full, or that does nothing."""
        from peft import get_peft_model, set_peft_model_state_dict

        if name in self.names:
            raise KitError(f"the name {name!r} is given twice")
        config = _adapter_config(folder, max_rank)
        tensors = read_tensors(folder / "adapter_model.safetensors")
        # PEFT takes names as parts of module paths, where a digest's characters would not do.
        inside = f"adapter{len(self._inside)}"
        try:
            if self._inside:
                self.model.add_adapter(inside, config)
            else:
                self.model = get_peft_model(self.model, config, adapter_name=inside)
            report: Any = set_peft_model_state_dict(self.model, tensors, adapter_name=inside)
        except (ValueError, RuntimeError) as error:
            raise KitError(f"{folder}: the adapter does not fit the base model: {error}") from None
        missing = [key for key in report.missing_keys if f".{inside}." in key]
        if report.unexpected_keys or missing:
            raise KitError(
                f"{folder}: {len(report.unexpected_keys)} tensors match no module and {len(missing)} are missing, "
                f"for example {[*report.unexpected_keys, *missing][0]}"
            )
        _refuse_odd_adapter(folder, tensors)
        self._inside[name] = inside
        self.model.eval().requires_grad_(False)

    @contextmanager
    def speaking(self, name: str) -> Iterator[Any]:
        """The model, answering as `name` within the block."""
        if not self._inside:
            yield self.model
        elif name == self.own_name:
            with self.model.disable_adapter():
                yield self.model
        else:
            self.model.set_adapter(self._inside[name], inference_mode=True)
            yield self.model


def _refuse_odd_adapter(folder: Path, tensors: Mapping[str, Any]) -> None:
    for key, tensor in tensors.items():
        if not bool(tensor.float().isfinite().all()):
            raise KitError(f"{folder}: tensor {key} holds values that are not finite")
    if not any(bool(tensor.any()) for key, tensor in tensors.items() if "lora_B" in key):
        raise KitError(f"{folder}: the adapter has no effect, all its lora_B tensors are zero")


def _adapter_config(folder: Path, max_rank: int) -> Any:
    """Only the fields that decide the sum W + s BA are read; nothing in an entrant's file can point elsewhere."""
    from peft import LoraConfig

    path = folder / "adapter_config.json"
    raw = read_json(path)
    if raw.get("peft_type") != "LORA":
        raise KitError(f"{path}: peft_type is {raw.get('peft_type')!r}; only LORA is served")
    rank, targets = raw.get("r"), raw.get("target_modules")
    alpha = raw.get("lora_alpha", rank)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= max_rank:
        raise KitError(f"{path}: r is {rank!r}; it must be a whole number from 1 to {max_rank}")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise KitError(f"{path}: lora_alpha is {alpha!r}; it must be a finite number")
    if not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
        raise KitError(f"{path}: target_modules is {targets!r}; it must be a list of module names")
    for field in PLAIN_ONLY:
        if raw.get(field):
            raise KitError(
                f"{path}: {field} is set; only plain LoRA matrices are served (save a full model instead)"
            )
    if raw.get("bias", "none") != "none":
        raise KitError(f"{path}: bias is {raw['bias']!r}; only 'none' is served")
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=cast(int, alpha),  # PEFT only multiplies with it
        target_modules=targets,
        use_rslora=bool(raw.get("use_rslora", False)),
        layers_to_transform=raw.get("layers_to_transform"),
    )
