"""The model server on the tiny tier: batches change nothing, settings are honoured, and the exam sees the training."""

from __future__ import annotations

import json
import signal
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kit.running import Arena, Served, Server, exam, kit

from palestra_kit.adapters import Loaded
from palestra_kit.chat import Chat
from palestra_kit.errors import KitError
from palestra_kit.generate import Ask, Sampling, answer_batch
from palestra_kit.rows import Message, read_rows
from palestra_kit.scores import wilson
from palestra_kit.seal import sealed_digest
from palestra_kit.weights import load_base

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Serve = Callable[..., Server]
SEED = "00112233445566778899aabbccddeeff"


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def healthy(server: Server) -> bool:
    return server.ask("GET", "/health")[0] == 200


def asks_of(chat: Chat, arena: Arena, **fields: Any) -> list[Ask]:
    return [
        Ask(chat.encode(row.messages[:1], answer_next=True).ids, 12, **fields)
        for row in read_rows(arena.dev)[:40]
    ]


def test_a_greedy_answer_does_not_depend_on_its_batch(arena: Arena) -> None:
    """Left padding done right: prompts of different lengths together give what each gives alone."""
    chat, model = Chat.load(arena.base), load_base(arena.base)
    asks = asks_of(chat, arena)
    assert len({len(ask.ids) for ask in asks}) > 3
    together = answer_batch(model, chat, asks, Sampling())
    assert together == [answer_batch(model, chat, [ask], Sampling())[0] for ask in asks]
    assert together == answer_batch(model, chat, asks[::-1], Sampling())[::-1]
    assert len({answer.tokens for answer in together}) > 1


def test_a_seeded_draw_does_not_depend_on_its_batch(arena: Arena) -> None:
    chat, model = Chat.load(arena.base), load_base(arena.base)
    hot = Sampling(temperature=2.0)
    asks = asks_of(chat, arena, seed=3)
    together = answer_batch(model, chat, asks, hot)
    assert together == [answer_batch(model, chat, [ask], hot)[0] for ask in asks]
    assert together != answer_batch(model, chat, asks_of(chat, arena, seed=4), hot)
    assert answer_batch(model, chat, asks, Sampling(2.0, top_p=0.001)) == answer_batch(
        model, chat, asks, Sampling()
    )


def test_the_repetition_penalty_keeps_the_model_from_copying(arena: Arena) -> None:
    chat, model = Chat.load(arena.base), load_base(arena.base)
    ids = chat.encode([Message("user", "say abc")], answer_next=True).ids
    plain = answer_batch(model, chat, [Ask(ids, 8)], Sampling())[0]
    pushed = answer_batch(model, chat, [Ask(ids, 8)], Sampling(repetition_penalty=2.0))[0]
    assert plain == ("abc", 4, "stop")
    assert pushed.text != "abc"


def test_one_server_answers_as_base_and_as_adapter(served: Served, adapter: Path) -> None:
    """F41: ready means a first real answer. Stop texts, limits and usage are the real ones; errors name the field."""
    server = served.server
    assert set(served.before) <= {503}
    digest = str(sealed_digest(adapter))
    assert [one["id"] for one in server.ask("GET", "/v1/models")[1]["data"]] == ["base", "tuned", digest]

    tuned = server.chat("wrap hco", model="tuned")
    assert text_of(tuned) == text_of(server.chat("wrap hco", model=digest)) == "[hco]"
    assert text_of(server.chat("wrap hco", model="base")) != "[hco]"
    assert tuned["choices"][0]["finish_reason"] == "stop"
    assert tuned["usage"] == {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17}

    cut = server.chat("say abc", model="base", max_tokens=2)
    assert (text_of(cut), cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == (
        "ab",
        "length",
        2,
    )
    stopped = server.chat("say abc", model="base", stop=["c", "bc"])
    assert (text_of(stopped), stopped["choices"][0]["finish_reason"]) == ("a", "stop")

    status, error = server.ask("POST", "/v1/chat/completions", {"messages": [], "top_k": 3})
    assert (status, error["error"]["param"]) == (400, "top_k")
    assert server.ask("GET", "/v1/nothing")[0] == 404
    assert server.ask("GET", "/v1/chat/completions")[0] == 405
    assert text_of(server.chat("say \u2603 \x00", model="base")) is not None


def test_sigterm_ends_it_at_once_even_in_the_middle_of_an_answer(arena: Arena, serve: Serve) -> None:
    server = serve("--base", arena.base)
    server.wait(healthy)
    body = json.dumps(
        {"messages": [{"role": "user", "content": "say abc"}], "temperature": 2, "max_tokens": 200}
    ).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(server.path))
        line.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
            + body
        )
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    assert not server.path.exists()


def test_a_socket_in_use_is_not_taken_over(arena: Arena, serve: Serve) -> None:
    server = serve("--base", arena.base)
    server.wait(lambda one: one.path.exists())
    assert (
        "is served by another process already"
        in kit("serve", "--base", arena.base, "--socket", server.path, code=2).stderr
    )
    server.process.kill()
    server.process.wait()
    assert server.path.exists()
    long = "/tmp/" + "x" * 110
    assert (
        "a socket's path may have 107" in kit("serve", "--base", arena.base, "--socket", long, code=2).stderr
    )


def tamper(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite a safetensors header, keeping the tensors' bytes."""
    raw = (folder / name).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    change(header)
    made = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(made)) + made + raw[8 + size :])


def copy(folder: Path, to: Path) -> Path:
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


# PEFT 0.21 reads a property that transformers 5.24 has renamed.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_f30_f31_adapters_that_would_not_work_are_refused_at_the_start(
    arena: Arena, adapter: Path, tmp_path: Path
) -> None:
    """F30: no module matched, or nothing changed. F31: a rank above the limit, whole modules trained along."""
    weights = "adapter_model.safetensors"
    zero = copy(adapter, tmp_path / "zero")
    raw = (zero / weights).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    (zero / weights).write_bytes(raw[: 8 + size] + bytes(len(raw) - 8 - size))
    renamed = copy(adapter, tmp_path / "renamed")

    def misname(header: dict[str, Any]) -> None:
        name = next(key for key in header if "lora_A" in key)
        header[name.replace("q_proj", "x_proj").replace("down_proj", "x_proj")] = header.pop(name)

    tamper(renamed, weights, misname)
    short = copy(adapter, tmp_path / "short")
    (short / weights).write_bytes(raw[:-1])
    whole = copy(adapter, tmp_path / "whole")
    config = json.loads((whole / "adapter_config.json").read_text())
    (whole / "adapter_config.json").write_text(json.dumps({**config, "modules_to_save": ["lm_head"]}))
    cases = [
        (zero, 64, "the adapter has no effect"),
        (renamed, 64, "1 tensors match no module and 1 are missing"),
        (short, 64, "is not a readable safetensors file"),
        (whole, 64, "modules_to_save is set; only plain LoRA matrices are served"),
        (adapter, 8, "r is 16; it must be a whole number from 1 to 8"),
    ]
    for folder, most, sentence in cases:
        with pytest.raises(KitError, match=sentence):
            Loaded(load_base(arena.base), "base").add("tuned", folder, most)
    failed = kit("serve", "--base", arena.base, "--adapter", zero, "--socket", tmp_path / "s", code=2)
    assert failed.stderr.startswith("error: ")
    assert "the adapter has no effect" in failed.stderr
    assert not (tmp_path / "s").exists()


def test_a_full_model_must_have_the_bases_tensors(arena: Arena, tmp_path: Path) -> None:
    def lose(header: dict[str, Any]) -> None:
        header["other"] = header.pop("model.norm.weight")

    def reshape(header: dict[str, Any]) -> None:
        header["model.norm.weight"]["shape"] = [8, 8]

    cases = [
        (lose, r"tensor model\.norm\.weight is missing"),
        (reshape, r"tensor model\.norm\.weight has shape \[8, 8\]; the base model's is \[64\]"),
    ]
    for change, sentence in cases:
        folder = copy(arena.base, tmp_path / change.__name__)
        tamper(folder, "model.safetensors", change)
        with pytest.raises(KitError, match=sentence):
            load_base(arena.base, weights=folder)


def test_on_1000_hidden_questions_the_trained_model_beats_the_base_by_more_than_both_intervals(
    served: Served,
) -> None:
    asked = exam("questions", "--seed", SEED, "--n", 1_000).stdout
    questions = [json.loads(line) for line in asked.splitlines()]
    shares = {}
    for name in ("base", "tuned"):

        def answer(question: dict[str, Any], name: str = name) -> str:
            body = {"model": name, "messages": question["messages"], "max_tokens": question["max_tokens"]}
            status, given = served.server.ask("POST", "/v1/chat/completions", body)
            assert status == 200
            return json.dumps(
                {"id": question["id"], "text": text_of(given), "finish": given["choices"][0]["finish_reason"]}
            )

        with ThreadPoolExecutor(64) as pool:
            paper = "\n".join(pool.map(answer, questions))
        score = json.loads(exam("score", "--seed", SEED, "--n", 1_000, answers=paper).stdout)
        shares[name] = wilson(score["correct"], score["n"])
    assert shares["tuned"][0] > shares["base"][1] + 0.05
