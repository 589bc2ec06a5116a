"""The training loop's parts: prepare a model, do a step, save weights, keep and take up the state of an unfinished run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palestra_kit.chat import Encoded
from palestra_kit.errors import KitError
from palestra_kit.folders import new_folder
from palestra_kit.weights import SMALL_MODEL_PARAMETERS

LOWEST_LR_SHARE = 0.1
COPIED_FROM_BASE = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def prepare(model: Any, method: str, rank: int, seed: int) -> Any:
    """Seed first: LoRA's first matrices are random. Returns the model with exactly the parameters to train switched on."""
    import torch

    torch.manual_seed(seed)
    if method == "full":
        return model.requires_grad_(True).train()
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    return get_peft_model(model, config).train()


class Defaults(NamedTuple):
    """Settings that teach something in a first run. Small models bear far higher rates and want more rows a step."""

    lr: float
    batch: int


def defaults(model: Any, method: str) -> Defaults:
    """By size and method, as measured on the two base models of this kit."""
    small = sum(tensor.numel() for tensor in model.parameters()) < SMALL_MODEL_PARAMETERS
    if small:
        return Defaults(lr=5e-3 if method == "lora" else 2e-3, batch=32)
    return Defaults(lr=1e-3 if method == "lora" else 5e-5, batch=8)


class Run:
    """One run of AdamW over a model's trainable parameters: a short warm-up, then a straight line down."""

    def __init__(self, model: Any, lr: float, steps: int) -> None:
        import torch

        self.model, self.lr, self.steps = model, lr, steps
        self.taken = 0
        self.trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.optimizer = torch.optim.AdamW(self.trained.values(), lr=lr, weight_decay=0.0)
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.body, self.head = inner.get_decoder(), inner.get_output_embeddings()

    def step(self, rows: list[Encoded], pad_id: int) -> float:
        """One update on a batch; returns the mean loss over its trained tokens, before the update."""
        import torch
        from torch.nn.functional import cross_entropy

        device = self.model.device
        width = max(len(row.ids) for row in rows)
        ids = torch.tensor([row.ids + [pad_id] * (width - len(row.ids)) for row in rows], device=device)
        real = torch.tensor(
            [[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in rows], device=device
        )
        learn = torch.tensor([row.trained + [False] * (width - len(row.ids)) for row in rows], device=device)[
            :, 1:
        ]
        hidden = self.body(input_ids=ids, attention_mask=real, use_cache=False).last_hidden_state
        # The output layer is the dearest part of a small model, so it sees only the places that teach something.
        loss = cross_entropy(self.head(hidden[:, :-1][learn]).float(), ids[:, 1:][learn])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained.values(), 1.0)
        self.taken += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * self._share()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    def _share(self) -> float:
        warm = max(1, min(10, self.steps // 10))
        left = (self.steps - self.taken) / max(1, self.steps - warm)
        return min(1.0, self.taken / warm) * max(LOWEST_LR_SHARE, min(1.0, left))


def save_adapter(model: Any, base_name: str, folder: Path) -> None:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    tensors = get_peft_model_state_dict(model, save_embedding_layers=False)
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        folder / "adapter_model.safetensors",
        {"format": "pt"},
    )
    config = model.peft_config["default"].to_dict()
    targets = sorted({name.rsplit(".", 1)[-1] for name in config["target_modules"]})
    config.update(base_model_name_or_path=base_name, inference_mode=True, target_modules=targets)
    given = {
        key: value for key, value in config.items() if isinstance(value, str | int | float | list) and value
    }
    (folder / "adapter_config.json").write_text(
        json.dumps(given, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )


def save_full(model: Any, base: Path, folder: Path) -> None:
    """All weights in the number format of the base's own files, with its configuration and tokenizer beside them."""
    import torch
    from safetensors.torch import save_file

    for name in COPIED_FROM_BASE:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)
    named = json.loads((base / "config.json").read_text(encoding="utf-8"))
    kind = getattr(torch, str(named.get("dtype") or named.get("torch_dtype") or "float32"))
    tensors = model.state_dict()
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(
        {name: tensor.detach().to("cpu", kind).contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )


def save_state(run: Run, resume: Path, step: int, plan: Mapping[str, Any]) -> None:
    """Keep weights and optimizer as RESUME/step-N, then drop the older ones: a kill at any moment leaves one whole state."""
    from safetensors.torch import save_file

    tensors = {f"weight/{name}": tensor.detach().cpu().contiguous() for name, tensor in run.trained.items()}
    for name, tensor in run.trained.items():
        for moment in MOMENTS:
            tensors[f"{moment}/{name}"] = run.optimizer.state[tensor][moment].detach().cpu().contiguous()
    target = resume / f"step-{step}"
    if target.exists():
        shutil.rmtree(target)
    with new_folder(target) as folder:
        save_file(tensors, folder / "state.safetensors")
        (folder / "state.json").write_text(
            json.dumps({"step": step, "plan": dict(plan)}, indent=2) + "\n", encoding="utf-8"
        )
    for older in _states(resume)[:-1]:
        shutil.rmtree(older)


def load_state(run: Run, resume: Path, plan: Mapping[str, Any]) -> int:
    """Take up the latest kept state; returns the steps done, 0 when there is none."""
    import torch
    from safetensors.torch import load_file

    states = _states(resume)
    if not states:
        return 0
    kept = json.loads((states[-1] / "state.json").read_text(encoding="utf-8"))
    for key, value in plan.items():
        if kept["plan"].get(key) != value:
            raise KitError(
                f"{resume} is of another run: {key} was {kept['plan'].get(key)!r} and is {value!r} now; remove it or use the old value"
            )
    tensors = load_file(states[-1] / "state.safetensors")
    with torch.no_grad():
        for name, tensor in run.trained.items():
            tensor.copy_(tensors[f"weight/{name}"])
            state = {moment: tensors[f"{moment}/{name}"] for moment in MOMENTS}
            run.optimizer.state[tensor] = {
                key: one if key == "step" else one.to(tensor.device) for key, one in state.items()
            }
    run.taken = int(kept["step"])
    return run.taken


def drop_state(resume: Path) -> None:
    shutil.rmtree(resume, ignore_errors=True)


def _states(resume: Path) -> list[Path]:
    found = [path for path in resume.glob("step-*") if path.name[5:].isdigit()]
    return sorted(found, key=lambda path: int(path.name[5:]))
