"""Request keys at the door: the same key is the same request, done once, however often and by whatever way it is sent."""

from __future__ import annotations

import threading

from tests.web.arena import Answer, Arena

from palestra.events.jobs import JobSubmitted
from palestra.events.runs import Refused
from palestra.rules.units import MINUTE

JOB = {"argv": ["true"], "time": "1h", "memory": "1GiB"}


def test_the_same_key_is_one_job(arena: Arena) -> None:
    first = arena.ask("POST", "/arena/jobs", JOB, key="submit-one")
    arena.settle(MINUTE)
    again = arena.ask("POST", "/arena/jobs", JOB, key="submit-one")
    assert (first.status, again.status) == (201, 201)
    assert first.json["job"] == again.json["job"] == "A-j1"
    assert sum(isinstance(event, JobSubmitted) for event in arena.events) == 1
    assert arena.ask("POST", "/arena/jobs", JOB, key="submit-two").json["job"] == "A-j2"
    assert arena.ask("POST", "/arena/jobs", JOB).json["job"] == "A-j3"


def test_a_key_used_for_something_else_is_refused(arena: Arena) -> None:
    arena.ask("POST", "/arena/jobs", JOB, key="submit-one")
    for verb, body in (("/arena/jobs", JOB | {"time": "2h"}), ("/arena/finish", {"confirm": True})):
        answer = arena.ask("POST", verb, body, key="submit-one")
        assert (answer.status, answer.error["code"], answer.error["field"]) == (409, "key_reused", "key")
        assert "was used before for something else; make a new key" in answer.error["message"]
    assert arena.ask("GET", "/arena/status").json["finished_t"] is None


def test_corners_keys_are_their_own(arena: Arena) -> None:
    assert arena.ask("POST", "/arena/jobs", JOB, key="submit-one").json["job"] == "A-j1"
    assert arena.ask("POST", "/arena/jobs", JOB, key="submit-one", corner="B").json["job"] == "B-j1"


def test_a_refusal_is_remembered_by_its_key(arena: Arena) -> None:
    """Same key, same answer: also a no."""
    much = JOB | {"gpus": 9}
    first = arena.ask("POST", "/arena/jobs", much, key="too-much-1")
    again = arena.ask("POST", "/arena/jobs", much, key="too-much-1")
    assert first.error["code"] == again.error["code"] == "gpus_out_of_range"
    assert first.error["message"] == again.error["message"]
    assert sum(isinstance(event, Refused) for event in arena.events) == 1


def test_every_changing_verb_can_be_repeated(arena: Arena) -> None:
    arena.checkpoint("one")
    for words in (
        ("submit", "--time", "1h", "--request", "key-submit", "--", "true"), ("seal", "one", "--request", "key-seal-1"),
        ("nominate", "one", "--request", "key-nominate"), ("cancel", "A-j1", "--request", "key-cancel"),
        ("finish", "--yes", "--request", "key-finish"),
    ):  # fmt: skip
        verb, *rest = words
        first = arena.run(verb, "--json", *rest)
        rows = len(arena.events)
        again = arena.run(verb, "--json", *rest)
        assert (first.code, again.code) == (0, 0), (first, again)
        names = ("job", "checkpoint", "nomination", "finished_t")
        assert [first.json.get(name) for name in names] == [again.json.get(name) for name in names]
        assert len(arena.events) == rows, words


def test_many_at_once_with_one_key_make_one_job(arena: Arena) -> None:
    """A client that lost its connection may ask again while the first request is still being ruled on."""
    answers: list[Answer] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(arena.ask("POST", "/arena/jobs", JOB, key="all-at-once"))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.json["job"] for answer in answers} == {"A-j1"}
    assert sum(isinstance(event, JobSubmitted) for event in arena.events) == 1
