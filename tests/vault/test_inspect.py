"""Inspections: what is told from a kept folder and the base, each refusal by its code (F29-F33, S98)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palestra.rules.errors import Refusal
from palestra.vault import codes
from palestra.vault.inspect import Limits, inspect
from palestra.vault.safetensors import round_to
from palestra.vault.samples import (
    Arrays,
    llama_config,
    llama_tensors,
    lora_config,
    lora_tensors,
    trained,
    write_adapter,
    write_model,
)

CONFIG = llama_config()
TENSORS = llama_tensors(CONFIG)
NOTHING = Limits()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = write_model(tmp_path / "base", CONFIG, TENSORS)
    (folder / "base.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def refusal(folder: Path, base: Path, limits: Limits = NOTHING) -> Refusal:
    with pytest.raises(Refusal) as caught:
        inspect(folder, base, limits)
    return caught.value


def test_a_trained_full_model_is_measured(base: Path, mine: Path) -> None:
    found = inspect(write_model(mine, CONFIG, trained(TENSORS, by=0.005)), base, NOTHING)
    assert found.kind == "full"
    assert (found.tensors, found.identical) == (len(TENSORS), 5)  # the norms
    assert found.relative_delta == pytest.approx(0.005, rel=0.05)
    assert found.notes == ()


def test_a_trained_full_model_may_come_in_shards(base: Path, mine: Path) -> None:
    found = inspect(write_model(mine, CONFIG, trained(TENSORS), shards=3), base, NOTHING)
    assert found.tensors == len(TENSORS)


def test_an_adapter_delta_is_what_its_product_says(base: Path, mine: Path) -> None:
    """The norm from the small factors equals the one from the full matrices."""
    tensors = lora_tensors(CONFIG)
    found = inspect(write_adapter(mine, lora_config(), tensors), base, NOTHING)
    delta = reference = 0.0
    for layer in range(2):
        for name in ("q_proj", "v_proj"):
            at = f"model.layers.{layer}.self_attn.{name}"
            a, b = (tensors[f"base_model.model.{at}.lora_{side}.weight"].astype(float) for side in "AB")
            delta += float(np.sum((2.0 * b @ a) ** 2))
            reference += float(np.sum(TENSORS[f"{at}.weight"].astype(float) ** 2))
    assert found.kind == "lora"
    assert (found.tensors, found.identical) == (4, 0)
    assert found.relative_delta == pytest.approx((delta / reference) ** 0.5, rel=1e-9)


def test_damaged_weights_have_three_distinct_codes(base: Path, mine: Path) -> None:
    """F29: one byte cut, eight bytes added, two shards swapped."""
    write_model(mine, CONFIG, trained(TENSORS), shards=2)
    first, second = sorted(mine.glob("model-*"))
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    assert refusal(mine, base).code == codes.WEIGHTS_SHORT
    first.write_bytes(whole + bytes(8))
    assert refusal(mine, base).code == codes.WEIGHTS_LONG
    first.write_bytes(second.read_bytes())
    second.write_bytes(whole)
    swapped = refusal(mine, base)
    assert swapped.code == codes.SHARDS_SWAPPED
    assert first.name in swapped.message and second.name in swapped.message


@pytest.mark.parametrize(
    ("base_type", "dtype"), [("F32", "F32"), ("F32", "BF16"), ("F32", "F16"), ("BF16", "F32")]
)
def test_a_copy_of_the_base_is_unchanged_in_any_type(tmp_path: Path, base_type: str, dtype: str) -> None:
    """S98: all weights equal, or equal once the base is rounded to the same type."""
    base = write_model(tmp_path / "base", CONFIG, TENSORS, dtype=base_type)
    held = {name: round_to(values.astype(float), base_type) for name, values in TENSORS.items()}
    mine = write_model(tmp_path / "mine", CONFIG, held, dtype=dtype)
    found = refusal(mine, base)
    assert found.code == codes.UNCHANGED_COPY
    assert ("change of type" in found.message) == (base_type != dtype)
    allowed = inspect(mine, base, Limits(unchanged_allowed=True))
    assert allowed.identical == allowed.tensors


def test_training_shows_through_a_change_of_type(base: Path, mine: Path) -> None:
    found = inspect(write_model(mine, CONFIG, trained(TENSORS, by=0.01), dtype="BF16"), base, NOTHING)
    assert found.relative_delta == pytest.approx(0.01, rel=0.1)
    assert found.notes == ("5 tensors equal the base's after a change of type",)


@pytest.mark.parametrize("change", ["B", "A", "alpha"])
def test_an_adapter_without_effect_is_an_unchanged_copy(base: Path, mine: Path, change: str) -> None:
    """F30, S98: every delta is zero, whichever factor makes it so."""
    tensors = lora_tensors(CONFIG)
    if change != "alpha":
        tensors = {name: values * (f"lora_{change}" not in name) for name, values in tensors.items()}
    write_adapter(mine, lora_config(lora_alpha=0) if change == "alpha" else lora_config(), tensors)
    assert refusal(mine, base).code == codes.UNCHANGED_COPY


def test_a_partly_zero_adapter_is_counted(base: Path, mine: Path) -> None:
    tensors = lora_tensors(CONFIG)
    zero = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
    found = inspect(write_adapter(mine, lora_config(), {**tensors, zero: tensors[zero] * 0}), base, NOTHING)
    assert (found.tensors, found.identical) == (4, 1)


def test_a_substituted_model_is_not_derived(base: Path, mine: Path) -> None:
    found = refusal(write_model(mine, CONFIG, llama_tensors(CONFIG, seed=9)), base)
    assert found.code == codes.NOT_DERIVED
    assert "mean cosine of" in found.message and "0.25 or more" in found.message


def test_the_measure_of_derivation_is_the_organisers(base: Path, mine: Path) -> None:
    """A small model may move far in honest training; large ones don't, and their organisers can ask for more."""
    write_model(mine, CONFIG, trained(TENSORS, by=0.6))
    assert refusal(mine, base, Limits(cosine=0.9)).code == codes.NOT_DERIVED
    found = inspect(mine, base, NOTHING)
    assert found.relative_delta == pytest.approx(0.6, rel=0.1)
    assert found.notes[0].endswith("which is unusually large")


def test_an_unusually_small_change_is_noted(base: Path, mine: Path) -> None:
    found = inspect(write_model(mine, CONFIG, trained(TENSORS, by=5e-4)), base, NOTHING)
    assert found.notes[0].startswith("the change is 0.0005 of the norm")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_value_that_is_not_finite_is_refused_by_name(
    base: Path, mine: Path, kind: str, value: float
) -> None:
    tensors = trained(TENSORS) if kind == "full" else lora_tensors(CONFIG)
    name = list(tensors)[1]
    tensors[name] = tensors[name].copy()
    tensors[name].flat[3] = value
    if kind == "full":
        write_model(mine, CONFIG, tensors)
    else:
        write_adapter(mine, lora_config(), tensors)
    found = refusal(mine, base)
    assert found.code == codes.NOT_FINITE and name in found.message


def renamed(tensors: Arrays) -> Arrays:
    return {name.replace("base_model.model.", "module."): values for name, values in tensors.items()}


def one_layer(tensors: Arrays) -> Arrays:
    return {name: values for name, values in tensors.items() if ".layers.0." in name}


def no_b(tensors: Arrays) -> Arrays:
    return {name: values for name, values in tensors.items() if "lora_B" not in name or "layers.1" in name}


def slice_of_a(tensors: Arrays) -> Arrays:
    return {name: values[:2] if "lora_A" in name else values for name, values in tensors.items()}


def with_head(tensors: Arrays) -> Arrays:
    return {**tensors, "base_model.model.lm_head.weight": TENSORS["lm_head.weight"]}


@pytest.mark.parametrize(
    ("change", "config", "code"),
    [
        (renamed, {}, codes.ADAPTER_UNMATCHED),
        (one_layer, {}, codes.ADAPTER_INCOMPLETE),
        (no_b, {}, codes.ADAPTER_INCOMPLETE),
        (slice_of_a, {}, codes.BASE_MISMATCH),
        (with_head, {}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"target_modules": ["q_proj", "v_proj", "no_proj"]}, codes.ADAPTER_UNMATCHED),
        (dict, {"r": 128}, codes.RANK_TOO_HIGH),
        (dict, {"r": 8}, codes.BASE_MISMATCH),
        (dict, {"r": True}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"lora_alpha": "much"}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"modules_to_save": ["lm_head"]}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"use_dora": True}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"bias": "all"}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"peft_type": "IA3"}, codes.ADAPTER_UNSUPPORTED),
        (dict, {"layers_to_transform": "all"}, codes.ADAPTER_UNSUPPORTED),
    ],
)
def test_an_adapter_that_would_not_be_applied_in_full_is_refused(
    base: Path, mine: Path, change: Callable[[Arrays], Arrays], config: dict[str, Any], code: str
) -> None:
    """F30, F31: renamed, partial or unservable adapters are told apart."""
    write_adapter(mine, lora_config(**config), change(lora_tensors(CONFIG)))
    assert refusal(mine, base).code == code


def test_an_adapter_on_chosen_layers_is_complete(base: Path, mine: Path) -> None:
    write_adapter(mine, lora_config(layers_to_transform=[0]), one_layer(lora_tensors(CONFIG)))
    assert inspect(mine, base, NOTHING).tensors == 2


def test_the_rank_limit_is_named(base: Path, mine: Path) -> None:
    """F31: refused with the limit."""
    write_adapter(mine, lora_config(rank=4), lora_tensors(CONFIG, rank=4))
    assert "at most 2 is served" in refusal(mine, base, Limits(rank=2)).message


def without(name: str) -> Callable[[Arrays], Arrays]:
    return lambda tensors: {key: values for key, values in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("model.norm.weight"), "1 missing, for example 'model.norm.weight'"),
        (lambda tensors: {**tensors, "extra.weight": np.zeros(3)}, "1 unknown to the base model"),
        (
            lambda tensors: {**tensors, "model.norm.weight": np.ones(3)},
            "has shape [3], the base model's is [16]",
        ),
    ],
)
def test_other_names_or_shapes_are_a_base_mismatch(
    base: Path, mine: Path, change: Callable[[Arrays], Arrays], said: str
) -> None:
    found = refusal(write_model(mine, CONFIG, change(trained(TENSORS))), base)
    assert found.code == codes.BASE_MISMATCH and said in found.message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"num_attention_heads": 4}, codes.BASE_MISMATCH),
        ({"rope_theta": 5e5}, codes.BASE_MISMATCH),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0}}, codes.BASE_MISMATCH),
        ({"architectures": ["OtherForCausalLM"]}, codes.BASE_MISMATCH),
        ({"auto_map": {"AutoModel": "code.Model"}}, codes.NOT_LOADABLE),
        ({"quantization_config": {"bits": 4}}, codes.NOT_LOADABLE),
    ],
)
def test_another_configuration_is_another_model(
    base: Path, mine: Path, fields: dict[str, Any], code: str
) -> None:
    assert refusal(write_model(mine, {**CONFIG, **fields}, trained(TENSORS)), base).code == code


def test_rotary_settings_may_be_spelt_either_way(base: Path, mine: Path) -> None:
    config = {name: value for name, value in CONFIG.items() if name != "rope_theta"}
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000}
    assert inspect(write_model(mine, config, trained(TENSORS)), base, NOTHING).notes == ()


def test_whole_number_weights_are_refused(base: Path, mine: Path) -> None:
    assert refusal(write_model(mine, CONFIG, trained(TENSORS), dtype="I8"), base).code == codes.BASE_MISMATCH


def test_another_end_token_or_tokenizer_is_noted(base: Path, mine: Path) -> None:
    """F32: the answers that never stop come from here."""
    write_model(mine, {**CONFIG, "eos_token_id": 9}, trained(TENSORS))
    (mine / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 9]}))
    (mine / "tokenizer.json").write_text('{"version":"2"}')
    assert inspect(mine, base, NOTHING).notes == (
        "config.json: eos_token_id is 9, the base model's is 2",
        "generation_config.json: eos_token_id is [2, 9], the base model's is 2",
        "tokenizer.json differs from the base model's",
    )


def test_tied_embeddings_may_be_written_twice_but_not_differ(tmp_path: Path) -> None:
    """A head of its own would be trained and never served (F31)."""
    config = llama_config(tied=True)
    tensors = llama_tensors(config)
    base = write_model(tmp_path / "base", config, tensors)
    moved = trained(tensors)
    embedding = moved["model.embed_tokens.weight"]
    assert inspect(write_model(tmp_path / "one", config, moved), base, NOTHING).tensors == len(tensors)
    twice = write_model(tmp_path / "two", config, {**moved, "lm_head.weight": embedding})
    assert inspect(twice, base, NOTHING).tensors == len(tensors)
    apart = write_model(tmp_path / "three", config, {**moved, "lm_head.weight": embedding * 1.5})
    found = refusal(apart, base)
    assert found.code == codes.BASE_MISMATCH and "ties them" in found.message


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("optimizer.pt", codes.FORBIDDEN_FILE),
        ("modeling.py", codes.FORBIDDEN_FILE),
        ("pytorch_model.bin", codes.FORBIDDEN_FILE),
        ("extra.safetensors", codes.FORBIDDEN_FILE),
        ("deep/model.safetensors", codes.FORBIDDEN_FILE),
        ("model-00001-of-00001.safetensors", codes.HEADER_FAULT),
        ("adapter_config.json", ""),
        ("README.md", ""),
    ],
)
def test_only_files_that_are_looked_at_may_be_nominated(base: Path, mine: Path, name: str, code: str) -> None:
    """No pickles, no code, no second set of weights that some server would load and nobody inspected."""
    write_model(mine, CONFIG, trained(TENSORS))
    (mine / name).parent.mkdir(exist_ok=True)
    (mine / name).write_bytes((mine / "model.safetensors").read_bytes() if "safetensors" in name else b"{}")
    if code:
        assert refusal(mine, base).code == code
    else:
        assert inspect(mine, base, NOTHING).kind == "full"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["README.md"], "neither an adapter nor a full model"),
        (["config.json"], "neither an adapter nor a full model"),
        (["final/config.json", "final/model.safetensors"], "seem to lie in final/"),
        (
            ["config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors"],
            "an adapter and a full",
        ),
    ],
)
def test_a_folder_without_a_clear_kind_is_not_loadable(
    base: Path, mine: Path, names: list[str], said: str
) -> None:
    for name in names:
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_bytes(b"{}")
    found = refusal(mine, base)
    assert found.code == codes.NOT_LOADABLE and said in found.message


def test_an_index_must_fit_its_shards(base: Path, mine: Path) -> None:
    """F29: a shard that is missing, a tensor that nobody lists."""
    write_model(mine, CONFIG, trained(TENSORS), shards=2)
    index = mine / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    name, shard = next(iter(listed["weight_map"].items()))
    index.write_text(
        json.dumps({"weight_map": {**listed["weight_map"], name: "model-00009-of-00009.safetensors"}})
    )
    assert "names model-00009" in refusal(mine, base).message
    index.write_text(json.dumps({"weight_map": {**listed["weight_map"], "lost.weight": shard}}))
    assert "'lost.weight' is in none of the files" in refusal(mine, base).message
    index.write_text("[]")
    assert refusal(mine, base).code == codes.NOT_LOADABLE


def test_norms_of_the_base_are_kept_and_renewed(base: Path, mine: Path, tmp_path: Path) -> None:
    """S06: a small adapter needs no second pass over a large base."""
    write_adapter(mine, lora_config(), lora_tensors(CONFIG))
    kept = tmp_path / "norms.json"
    first = inspect(mine, base, NOTHING, kept)
    saved = json.loads(kept.read_text())
    assert len(saved["norms"]) == 4
    kept.write_text(json.dumps({**saved, "norms": {name: 4 * norm for name, norm in saved["norms"].items()}}))
    assert inspect(mine, base, NOTHING, kept).relative_delta == pytest.approx(first.relative_delta / 2)
    write_model(base, CONFIG, {name: 2 * values for name, values in TENSORS.items()})
    assert inspect(mine, base, NOTHING, kept).relative_delta == pytest.approx(first.relative_delta / 2)
    kept.write_text("{torn")
    assert inspect(mine, base, NOTHING, kept).relative_delta == pytest.approx(first.relative_delta / 2)
