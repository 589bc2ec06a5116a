"""The command line of a vLLM server, for `[serving]` in competition.toml or for a plan: folders in, argv out.

Never run here: no machine with a GPU was at hand. The options were read in the source of vLLM's OpenAI-compatible server
(`vllm serve`): a unix socket (`--uds`), adapters (`--enable-lora`, `--lora-modules`), defaults that don't come from the
nominated folder (`--generation-config vllm`). Try it on the machine that is to serve before a competition relies on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palestra.serving.process import NOMINATED

BASE = "base"
SOCKET = "{socket}"


def vllm_argv(
    base: Path,
    *,
    adapter: Path | None = None,
    full: Path | None = None,
    rank: int = 64,
    gpus: int = 1,
    context: int | None = None,
    memory_share: str = "0.9",
    seed: int = 0,
    more: Sequence[str] = (),
) -> tuple[str, ...]:
    """Serve the base, a full model in its place, or the base with an adapter; `{socket}` stays for the process to fill in.

    `rank`: the highest adapter rank, one of 8, 16, 32, 64, 128, 256. `memory_share`: of each GPU's memory, as a decimal.
    """
    if adapter and full:
        raise ValueError("a nomination is an adapter or a full model, not both")
    argv = ["vllm", "serve", str(full or base), "--uds", SOCKET]
    argv += ["--served-model-name", NOMINATED if full else BASE]
    argv += [
        "--tensor-parallel-size",
        str(gpus),
        "--gpu-memory-utilization",
        memory_share,
        "--seed",
        str(seed),
    ]
    # The tokenizer and the turn format are the base's; sampling defaults come with each request.
    argv += ["--tokenizer", str(base), "--generation-config", "vllm", "--disable-uvicorn-access-log"]
    if context:
        argv += ["--max-model-len", str(context)]
    if adapter:
        argv += ["--enable-lora", "--max-lora-rank", str(rank), "--lora-modules", f"{NOMINATED}={adapter}"]
    return (*argv, *more)
