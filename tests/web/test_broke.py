"""S84: at zero credit calls are refused, while jobs go on and everything that costs no credit still works."""

from __future__ import annotations

from tests.building import competition
from tests.web.arena import Arena, serving

from palestra.client.connection import Connection
from palestra.cluster.fake import Behaviour
from palestra.rules.units import MINUTE
from palestra.state.accounts import API

CALL = {"model": "small", "messages": [{"role": "user", "content": "What next?"}], "max_tokens": 300}


def call(arena: Arena, corner: str = "A") -> tuple[int, dict[str, object]]:
    answer = arena.ask("POST", "/v1/chat/completions", CALL, corner=corner)
    return answer.status, answer.json


def test_s84_at_zero_credit_the_agent_can_still_do_everything_else() -> None:
    with serving(
        competition(api_credit=3_000_000), lambda spec: Behaviour(runs=None, out=b"step 1\n")
    ) as arena:
        statuses = [call(arena)[0] for _ in range(60)]
        assert statuses[0] == 200 and statuses[-1] == 402
        assert statuses == sorted(statuses), "once refused, always refused"
        _status, told = call(arena)
        error = told["error"]
        assert isinstance(error, dict)
        assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
        assert "the API credit is used up" in error["message"]
        assert "Jobs go on; nominate, logs and finish still work" in error["message"]
        account = arena.state.accounts["A", API]
        assert account.held == 0 and account.spent <= account.limit

        assert arena.submit().status == 201
        arena.settle(MINUTE)
        assert arena.run("logs", "A-j1").out == b"step 1\n"
        arena.checkpoint("one")
        assert arena.run("seal", "one").code == 0
        assert arena.run("nominate", "one").code == 0
        for _ in range(4):
            arena.settle(MINUTE)
        assert arena.ask("GET", "/arena/status").json["nomination"]["id"] == "A-n1"
        assert call(arena, "B")[0] == 200, "another corner's credit is its own"
        assert arena.run("finish", "--yes").code == 0


def test_calls_are_metered_and_status_shows_it(arena: Arena) -> None:
    before = arena.ask("GET", "/arena/status").json["api"]
    status, told = call(arena)
    assert status == 200 and "choices" in told
    after = arena.ask("GET", "/arena/status").json["api"]
    assert before["spent"] == 0 < after["spent"]
    assert after["limit"] == after["spent"] + after["held"] + after["left"]
    assert arena.ask("GET", "/v1/models").json["data"][0]["id"] == "small"


def test_the_house_harness_meets_the_gateway_behind_the_same_door(arena: Arena) -> None:
    """One socket for verbs and models: the client's own connection reaches both."""
    link = Connection(str(arena.socket()), "token-of-A", patience=5)
    answer = link.ask("POST", "/v1/chat/completions", CALL)
    assert answer["choices"][0]["message"]["content"] == "I have nothing left to do."
