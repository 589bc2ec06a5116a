"""Small random models in the shape of a Llama, made with numpy alone: for tests, simulations and measurements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palestra.rules.manifest import FILE_NAME, FORMAT, Facts, Manifest, ManifestFile, manifest_bytes
from palestra.vault.safetensors import write_safetensors

Arrays = dict[str, NDArray[Any]]


def llama_config(*, tied: bool = False, hidden: int = 16, layers: int = 2, words: int = 71) -> dict[str, Any]:
    """A `config.json`; heads of 8, an inner layer of twice the width."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": 2 * hidden, "num_hidden_layers": layers, "num_attention_heads": hidden // 8,
        "num_key_value_heads": hidden // 8, "vocab_size": words, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": tied, "eos_token_id": 2,
    }  # fmt: skip


def llama_tensors(config: Mapping[str, Any], seed: int = 0) -> Arrays:
    """Random weights for a configuration, as float32."""
    rng = np.random.RandomState(seed)
    wide, inner, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]

    def matrix(out: int, into: int) -> NDArray[Any]:
        return rng.standard_normal((out, into)).astype(np.float32) * np.float32(0.05)

    tensors: Arrays = {"model.embed_tokens.weight": matrix(words, wide)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name in "qkvo":
            tensors[f"{at}self_attn.{name}_proj.weight"] = matrix(wide, wide)
        tensors[f"{at}mlp.gate_proj.weight"] = matrix(inner, wide)
        tensors[f"{at}mlp.up_proj.weight"] = matrix(inner, wide)
        tensors[f"{at}mlp.down_proj.weight"] = matrix(wide, inner)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = np.ones(wide, np.float32)
    tensors["model.norm.weight"] = np.ones(wide, np.float32)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(words, wide)
    return tensors


def trained(tensors: Arrays, seed: int = 1, by: float = 0.005) -> Arrays:
    """The same weights, moved by about this share of their norm, as training would; norms stay."""
    rng = np.random.RandomState(seed)
    moved = {}
    for name, values in tensors.items():
        noise = rng.standard_normal(values.shape) * by * np.sqrt(np.mean(values.astype(np.float64) ** 2))
        moved[name] = values if values.ndim == 1 else (values + noise).astype(values.dtype)
    return moved


def write_model(
    folder: Path, config: Mapping[str, Any], tensors: Arrays, *, dtype: str = "F32", shards: int = 1
) -> Path:
    """A full model's folder, in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", {name: (dtype, tensors[name]) for name in names})
        return folder
    where = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        write_safetensors(folder / file, {name: (dtype, tensors[name]) for name in part})
        where.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def lora_config(rank: int = 4, **fields: Any) -> dict[str, Any]:
    """An `adapter_config.json` for the query and value projections."""
    return {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank, "bias": "none",
        "target_modules": ["q_proj", "v_proj"], **fields,
    }  # fmt: skip


def lora_tensors(config: Mapping[str, Any], rank: int = 4, seed: int = 2, by: float = 0.01) -> Arrays:
    """Matrices for `lora_config`; `by` 0 leaves every B at zero, as before the first step."""
    rng = np.random.RandomState(seed)
    tensors: Arrays = {}
    wide = config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        for name in ("q_proj", "v_proj"):
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{at}.lora_A.weight"] = rng.standard_normal((rank, wide)).astype(
                np.float32
            ) * np.float32(0.1)
            tensors[f"{at}.lora_B.weight"] = rng.standard_normal((wide, rank)).astype(
                np.float32
            ) * np.float32(by)
    return tensors


def write_adapter(folder: Path, config: Mapping[str, Any], tensors: Arrays, *, dtype: str = "F32") -> Path:
    """A LoRA adapter's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    write_safetensors(
        folder / "adapter_model.safetensors", {name: (dtype, values) for name, values in tensors.items()}
    )
    return folder


def seal(folder: Path) -> Manifest:
    """Write the folder's manifest, as an entrant's client does, and give it back."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != FILE_NAME]
    named = sorted((path.relative_to(folder).as_posix(), path) for path in paths)
    files = tuple(
        ManifestFile(
            bytes=path.stat().st_size, path=name, sha256=hashlib.sha256(path.read_bytes()).hexdigest()
        )
        for name, path in named
    )
    manifest = Manifest(facts=Facts(), files=files, format=FORMAT)
    (folder / FILE_NAME).write_bytes(manifest_bytes(manifest))
    return manifest
