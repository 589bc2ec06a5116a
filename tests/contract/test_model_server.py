"""What every model server must do, the fake and the kit's: what it says over HTTP, and how it starts and stops by key."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from palestra.events.nominations import AnswerSettings
from palestra.ports import Endpoint, Question
from palestra.rules.competition import Serving
from palestra.rules.errors import Broken
from palestra.rules.units import GIB, MINUTE, SECOND, Bytes, Micros
from palestra.serving.ask import Unanswered, ask, exchange, is_healthy, list_models
from palestra.serving.process import LocalModelServer
from palestra.vault.samples import lora_config, lora_tensors, write_adapter, write_model

SETTINGS = AnswerSettings()
HELLO = Question("hello", (("user", "say abc"),), 8)
PATIENCE = Micros(60 * SECOND)
KIT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "peft"))


class Place(NamedTuple):
    """A kind of server: its argv templates, a base, and an adapter for it."""

    rule: Serving
    base: Path
    adapter: Path


def rule_of(module: str, base: str, adapter: str) -> Serving:
    start = (sys.executable, "-m", module, "--socket", "{socket}")
    return Serving(
        base=(*start, *base.split()),
        adapter=(*start, *adapter.split()),
        full=(*start, *base.split()),
        memory=Bytes(2 * GIB),
        longest=Micros(2 * MINUTE),
    )


def fake_place(root: Path) -> Place:
    adapter = write_adapter(root / "adapter", lora_config(), {})
    rule = rule_of("palestra.serving.fake", "--names base", "--answers fixed --text tuned")
    return Place(rule, root, adapter)


def kit_place(root: Path) -> Place:
    base = root / "base"
    made = [sys.executable, "-m", "palestra_kit.models", "tiny", "--out", str(base)]
    subprocess.run(made, check=True, capture_output=True, timeout=110)
    config = json.loads((base / "config.json").read_text())
    adapter = write_adapter(root / "adapter", lora_config(), lora_tensors(config, by=0.5))
    rule = rule_of("palestra_kit.serve", "--base {base}", "--base {base} --adapter nominated={adapter}")
    return Place(rule, base, adapter)


MAKERS: dict[str, Callable[[Path], Place]] = {"fake": fake_place, "kit": kit_place}


@pytest.fixture(
    scope="module",
    params=[
        "fake",
        pytest.param(
            "kit", marks=[pytest.mark.slow, pytest.mark.skipif(not KIT, reason="needs the extra `kit`")]
        ),
    ],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return MAKERS[str(request.param)](tmp_path_factory.mktemp("place"))


@pytest.fixture(scope="module")
def running(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """One server for all questions of this module that don't stop it."""
    servers = LocalModelServer(place.rule, place.base, [HELLO], tmp_path_factory.mktemp("logs"))
    yield servers.start(place.adapter, SETTINGS, "shared")
    servers.stop("shared")


@pytest.fixture
def servers(place: Place, tmp_path: Path) -> Iterator[LocalModelServer]:
    made = LocalModelServer(place.rule, place.base, [HELLO], tmp_path)
    yield made
    for key in made.list():
        made.stop(key)


def complete(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": "say abc"}],
        "max_tokens": 8,
        **fields,
    }
    return exchange(endpoint.socket, "POST", "/v1/chat/completions", body, PATIENCE)


def status_of(endpoint: Endpoint, **fields: Any) -> int:
    with pytest.raises(Unanswered) as caught:
        complete(endpoint, **fields)
    return caught.value.status


def test_it_is_healthy_and_names_its_models(running: Endpoint) -> None:
    assert is_healthy(running.socket)
    assert set(list_models(running.socket)) == {"base", "nominated"}
    assert running.model == "nominated"


def test_an_answer_has_text_a_finish_and_usage(running: Endpoint) -> None:
    said = complete(running)
    choice = said["choices"][0]
    assert choice["message"]["role"] == "assistant"
    assert isinstance(choice["message"]["content"], str)
    assert choice["finish_reason"] in ("stop", "length")
    assert 0 <= said["usage"]["completion_tokens"] <= 8


def test_all_answer_settings_are_understood(running: Endpoint) -> None:
    """Settings belong to the nomination and are applied by whoever asks (S67)."""
    settings = AnswerSettings(
        system_prompt="be short",
        temperature="0.7",
        top_p="0.95",
        repetition_penalty="1.1",
        max_tokens=4,
        stop=("z",),
    )
    answer = ask(running, Question("q1", (("user", "say abc"),), 100), settings, PATIENCE)
    assert (answer.id, answer.finish in ("stop", "length")) == ("q1", True)


def test_the_limit_of_tokens_holds(running: Endpoint) -> None:
    assert complete(running, max_tokens=1)["usage"]["completion_tokens"] <= 1


def test_greedy_answers_repeat(running: Endpoint) -> None:
    question = Question("q", (("user", "caps abc"),), 8)
    assert ask(running, question, SETTINGS) == ask(running, question, SETTINGS)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": []},
        {"messages": "hi"},
        {"max_tokens": 0},
        {"messages": [{"role": "assistant", "content": "hi"}]},
    ],
)
def test_a_bad_request_is_the_askers_fault(running: Endpoint, fields: dict[str, Any]) -> None:
    assert status_of(running, **fields) == 400


def test_an_unknown_model_or_path_is_not_found(running: Endpoint) -> None:
    assert status_of(running, model="another") == 404
    with pytest.raises(Unanswered, match="404"):
        exchange(running.socket, "GET", "/v2/models", None, PATIENCE)


def test_after_a_bad_request_the_next_is_answered(running: Endpoint) -> None:
    assert status_of(running, messages=[]) == 400
    assert complete(running)["choices"]


def test_the_base_is_served_where_there_is_no_artifact(place: Place, servers: LocalModelServer) -> None:
    endpoint = servers.start(None, SETTINGS, "base")
    assert endpoint.model == "base"
    assert ask(endpoint, HELLO, SETTINGS).finish in ("stop", "length")
    assert servers.ready("base") > 0


def test_a_key_is_one_server(place: Place, servers: LocalModelServer) -> None:
    endpoint = servers.start(place.adapter, SETTINGS, "A-n1")
    assert servers.start(place.adapter, SETTINGS, "A-n1") == endpoint
    assert servers.list() == ["A-n1"]
    servers.stop("A-n1")
    servers.stop("A-n1")
    assert servers.list() == []
    assert not is_healthy(endpoint.socket)
    assert not Path(endpoint.socket).parent.exists()


def test_two_keys_are_two_servers(place: Place, servers: LocalModelServer) -> None:
    first, second = (servers.start(place.adapter, SETTINGS, key) for key in ("A-n1", "B-n1"))
    assert first.socket != second.socket
    servers.stop("A-n1")
    assert servers.list() == ["B-n1"]
    assert ask(second, HELLO, SETTINGS).finish in ("stop", "length")


@pytest.mark.slow
@pytest.mark.skipif(not KIT, reason="needs the extra `kit`")
def test_an_adapter_that_does_not_load_says_so(tmp_path: Path) -> None:
    """S26: a failed start gives the log's end."""
    base = write_model(tmp_path / "base", {}, {})
    adapter = write_adapter(tmp_path / "adapter", lora_config(), {})
    rule = rule_of("palestra_kit.serve", "--base {base}", "--base {base} --adapter nominated={adapter}")
    servers = LocalModelServer(rule, base, [HELLO], tmp_path)
    with pytest.raises(Broken, match=r"exit code 2; its log ends: error: .*base\.json is missing"):
        servers.start(adapter, SETTINGS, "A-n1")
    assert servers.list() == []
