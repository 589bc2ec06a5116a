"""Brings weights from a folder into memory: a base model, or a full model of the same shape. Safetensors only."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

from palestra_kit.errors import KitError

# No command here looks anything up on a model hub; this makes the libraries agree.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
# Waiting threads that spin cost more than twice the CPU time where jobs share cores. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Notices for those who write such libraries, not for those who read a job's log.
warnings.filterwarnings("ignore", category=FutureWarning, module="(transformers|peft|torch)")

SMALL_MODEL_PARAMETERS = 5_000_000


def pick_device(asked: str) -> str:
    """`auto` is the first CUDA device if there is one, else the CPU."""
    import torch

    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise KitError("device 'cuda' is not available here; use --device cpu")
    return asked


def load_base(base: Path, device: str = "cpu", weights: Path | None = None) -> Any:
    """The model in float32, ready to answer. `weights` names a folder whose weights replace the base's, tensor for tensor."""
    import torch
    from transformers import AutoModelForCausalLM

    if not sorted(base.glob("model*.safetensors")) or not (base / "config.json").is_file():
        raise KitError(f"{base} is no base model: it needs config.json and model*.safetensors")
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            base, dtype=torch.float32, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise KitError(f"{base} cannot be loaded: {error}") from None
    if weights is not None:
        _fill(model, _read_weights(weights), weights)
    model.eval().requires_grad_(False)
    use_threads(model)
    return model.to(device)


def use_threads(model: Any) -> None:
    """One thread for a small model: more threads only wait for each other there."""
    import torch

    if sum(tensor.numel() for tensor in model.parameters()) < SMALL_MODEL_PARAMETERS:
        torch.set_num_threads(1)


def _read_weights(folder: Path) -> dict[str, Any]:
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise KitError(f"{folder} has no model*.safetensors; a full model's folder needs its weights there")
    tensors: dict[str, Any] = {}
    for file in files:
        for name, tensor in read_tensors(file).items():
            if name in tensors:
                raise KitError(f"{file}: tensor {name} is in another file of this folder too")
            tensors[name] = tensor
    return tensors


def read_tensors(file: Path) -> dict[str, Any]:
    """A safetensors file's tensors by name; nothing in such a file can run."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(file))
    except FileNotFoundError:
        raise KitError(f"{file} is missing") from None
    except (SafetensorError, OSError) as error:
        raise KitError(f"{file} is not a readable safetensors file: {error}") from None


def _fill(model: Any, tensors: dict[str, Any], folder: Path) -> None:
    """Copy tensors in by name; every one must be there with its shape, and none may be left over."""
    import torch

    wanted = model.state_dict()
    if model.config.tie_word_embeddings:
        wanted.pop("lm_head.weight", None)
        tensors.pop("lm_head.weight", None)
    for name in sorted(wanted.keys() - tensors.keys()):
        raise KitError(
            f"{folder}: tensor {name} is missing; a full model has all {len(wanted)} tensors of the base model"
        )
    for name in sorted(tensors.keys() - wanted.keys()):
        raise KitError(f"{folder}: tensor {name} does not exist in the base model")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if tensor.shape != wanted[name].shape:
                raise KitError(
                    f"{folder}: tensor {name} has shape {list(tensor.shape)}; the base model's is {list(wanted[name].shape)}"
                )
            if not bool(torch.isfinite(tensor.float()).all()):
                raise KitError(f"{folder}: tensor {name} holds values that are not finite")
            wanted[name].copy_(tensor)


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KitError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise KitError(f"{path} is not readable JSON: {error}") from None
    if not isinstance(value, dict):
        raise KitError(f"{path} does not hold a JSON object")
    return value
