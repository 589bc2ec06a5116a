"""Training on the tiny tier, for real: what is learned, what is saved, and that a killed run goes on as if nothing had been."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.running import Arena, kit

from palestra_kit import evaluate, sft
from palestra_kit.chat import Chat
from palestra_kit.errors import KitError
from palestra_kit.rows import read_rows, write_rows
from palestra_kit.scores import wilson
from palestra_kit.seal import MANIFEST, digest_of, sealed_digest
from palestra_kit.training import Run, load_state, prepare
from palestra_kit.weights import load_base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
LORA_FILES = {"adapter_config.json", "adapter_model.safetensors", MANIFEST}


def losses(output: str) -> dict[int, str]:
    return {
        int(step): loss
        for step, loss in re.findall(r"PALESTRA progress step=(\d+) of=\d+ loss=([\d.]+)\n", output)
    }


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def right_answers(arena: Arena, model: Any) -> dict[str, int]:
    """Of the 20 dev questions of each family."""
    tallies = evaluate.measure(model, Chat.load(arena.base), read_rows(arena.dev), 12, "", 120)
    assert all(tally.n == 20 for tally in tallies.values())
    return {name: tally.strict for name, tally in tallies.items()}


def test_the_base_knows_three_families_and_lora_adds_a_fourth(arena: Arena, adapter: Path) -> None:
    before = right_answers(arena, load_base(arena.base))
    assert min(before["say"], before["caps"], before["last"]) >= 18
    assert before["wrap"] == before["back"] == before["add"] == 0
    done = kit("evaluate", "--base", arena.base, "--data", arena.dev, "--adapter", adapter, "--json")
    after = json.loads(done.stdout)
    assert after["by"]["wrap"]["strict"] >= 12
    assert after["n"] == 120
    assert wilson(after["strict"], 120)[0] > sum(before.values()) / 120


def test_a_lora_checkpoint_is_sealed_and_holds_weights_only(adapter: Path) -> None:
    assert names(adapter) == LORA_FILES
    assert sealed_digest(adapter) == digest_of(adapter)
    assert json.loads((adapter / MANIFEST).read_text())["facts"]["step"] == 100
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["base_model_name_or_path"]) == (
        "LORA",
        16,
        "palestra-tiny",
    )
    assert [path.name for path in adapter.parent.iterdir() if path.name.startswith((".lora", "lora."))] == []


def test_full_parameters_are_saved_with_what_serves_them(arena: Arena, tmp_path: Path) -> None:
    out = tmp_path / "full"
    done = kit(
        "sft", "--base", arena.base, "--data", arena.clean, "--out", out, "--method", "full", "--steps", 60
    )
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names(out)
    assert (out / "config.json").read_bytes() == (arena.base / "config.json").read_bytes()
    assert done.stdout.strip().endswith(str(sealed_digest(out)))
    assert right_answers(arena, load_base(arena.base, weights=out))["wrap"] >= 12


def test_resumed_after_sigterm_it_ends_in_the_same_bytes(arena: Arena, tmp_path: Path) -> None:
    """Stopped after step 12, resumed from its state: every later loss and the checkpoint itself equal the unbroken run's."""
    settings = ("--base", arena.base, "--data", arena.clean, "--steps", 30, "--save-every", 10, "--seed", 4)
    whole = kit("sft", *settings, "--out", tmp_path / "whole")
    assert names(tmp_path) == {"whole", "whole.step-10", "whole.step-20"}
    assert names(tmp_path / "whole.step-10") == LORA_FILES

    argv = [sys.executable, "-m", "palestra_kit.sft", *map(str, settings), "--out", str(tmp_path / "cut")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "step=12 " in line:
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
    assert process.returncode == 143
    assert not (tmp_path / "cut").exists()
    rest = kit("sft", *settings, "--out", tmp_path / "cut", "--resume")

    assert "going on after step 1" in rest.stdout
    wanted, got = losses(whole.stdout), losses(rest.stdout)
    assert len(got) < 20
    assert got == {step: wanted[step] for step in got}
    assert sealed_digest(tmp_path / "cut") == sealed_digest(tmp_path / "whole")
    assert sealed_digest(tmp_path / "cut.step-20") == sealed_digest(tmp_path / "whole.step-20")
    assert not (tmp_path / "cut.resume").exists()


def test_a_state_of_another_plan_is_not_taken_up(arena: Arena, tmp_path: Path) -> None:
    (tmp_path / "step-5").mkdir()
    (tmp_path / "step-5" / "state.json").write_text('{"step": 5, "plan": {"seed": 1, "lr": 0.1}}')
    run = Run(prepare(load_base(arena.base), "full", 0, 0), 0.1, 10)
    assert load_state(run, tmp_path / "none", {"seed": 1}) == 0
    with pytest.raises(KitError, match=r"is of another run: lr was 0\.1 and is 0\.2 now"):
        load_state(run, tmp_path, {"seed": 1, "lr": 0.2})


def test_what_would_be_trained_is_shown_and_nothing_is_refused(
    arena: Arena, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "say abc"},
                {"role": "assistant", "content": "abc"},
            ]
        },
        {"prompt": "say " + "a" * 300, "answer": "a"},
        {"messages": [{"role": "user", "content": "say abc"}]},
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert len(sft.encode_rows(Chat.load(arena.base), read_rows(tmp_path / "rows.jsonl"), 256)) == 1
    shown = capsys.readouterr().out
    assert "1 of 3 rows are used (1 too long, 1 without an answer)" in shown
    assert "<|system|>be kind<|end|><|user|>say abc<|end|><|assistant|>[[abc<|end|>]]" in shown

    write_rows(tmp_path / "rows.jsonl", rows[1:])
    arguments = ("--base", arena.base, "--data", tmp_path / "rows.jsonl", "--out", tmp_path / "no")
    reason = "of 2 rows 1 are longer than 256 tokens and 1 have no assistant's answer"
    assert f"nothing would be trained: {reason}" in kit("sft", *arguments, code=2).stderr
    assert not (tmp_path / "no").exists()


def test_bad_input_is_one_sentence_and_leaves_nothing_behind(arena: Arena, tmp_path: Path) -> None:
    rows = ("--data", arena.clean)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").write_text("x")
    cases = [
        (("--base", arena.base, *rows, "--out", tmp_path / "taken"), "already holds something"),
        (("--base", arena.base, "--data", tmp_path / "none", "--out", tmp_path / "out"), "does not exist"),
        (("--base", tmp_path, *rows, "--out", tmp_path / "out"), "base.json is missing"),
        (("--base", arena.base, *rows, "--out", tmp_path / "out", "--lr", "-1"), "--lr is -1.0"),
        (
            ("--base", arena.base, *rows, "--out", tmp_path / "out", "--lr", "1e38"),
            "a lower --lr than 1e+38 may help",
        ),
    ]
    for arguments, sentence in cases:
        failed = kit("sft", *arguments, code=2)
        assert sentence in failed.stderr
        assert len(failed.stderr.strip().splitlines()) == 1
    assert names(tmp_path) == {"taken"}
