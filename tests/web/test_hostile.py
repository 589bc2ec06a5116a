"""Bodies and headers no client of ours would send: each gets one clear answer, and the door goes on."""

from __future__ import annotations

import socket

import pytest
from tests.web.arena import DEADLINE, TOKENS, Arena

from palestra.events.nominations import NominationRequested
from palestra.events.runs import Refused

NESTED = b'{"argv": ["true"], "time": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
VERBS = ("/arena/jobs", "/arena/seals", "/arena/nominations", "/arena/finish")


@pytest.fixture(autouse=True)
def _goes_on(shared: Arena) -> object:
    """After each of these the door still answers, and nothing came of it but a no on the record."""
    before = ruled(shared)
    yield
    assert shared.ask("GET", "/arena/status").status == 200
    assert ruled(shared) == before


def ruled(arena: Arena) -> int:
    return sum(not isinstance(event, Refused) for event in arena.events)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"hello", "JSON"),
        (b"\x00", "JSON"),
        (b"\xff\xfe{}", "JSON"),
        (b'{"path": "\xff"}', "UTF-8"),
        (b'{"path": "\\ud800"}', "JSON"),
        (b'{"path": NaN}', "JSON"),
        (b"[]", "a JSON object"),
        (b"null", "a JSON object"),
        (b'"text"', "a JSON object"),
        (b"{} {}", "JSON"),
        (b'{"argv": ["true"]', "JSON"),
        (NESTED, "JSON"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'{"x": [[1, {"y": "\\u0000"}]]}', "NUL"),
        (b'{"x": 18446744073709551616}', "64 bits"),
        (b'{"x": -9999999999999999999999}', "64 bits"),
    ],
    ids=str,
)
def test_what_is_no_object_fit_for_the_book(shared: Arena, verb: str, body: bytes, said: str) -> None:
    answer = shared.ask("POST", verb, body)
    assert (answer.status, answer.error["code"]) == (422, "bad_input")
    assert said in answer.error["message"]
    assert len(answer.body) < 1_000


def test_nul_never_reaches_a_path_or_a_command(shared: Arena) -> None:
    for body, field in (
        ({"argv": ["true", "a\0b"], "time": "1m"}, "argv[1]"), ({"argv": ["true"], "time": "1m", "cwd": "\0"}, "cwd"),
        ({"argv": ["true"], "time": "1m", "outputs": ["\0"]}, "outputs[0]"),
    ):  # fmt: skip
        error = shared.ask("POST", "/arena/jobs", body).error
        assert error["field"] == field and "NUL" in error["message"]
    assert shared.ask("POST", "/arena/seals", {"path": "a\0b"}).error["field"] == "path"
    assert shared.ask("POST", "/arena/finish", {"note": "\0", "confirm": True}).error["field"] == "note"


def test_a_huge_body_is_refused_before_it_is_taken(shared: Arena) -> None:
    answer = shared.ask("POST", "/arena/jobs", b'{"argv": ["' + b"x" * (5 << 20) + b'"]}')
    assert (answer.status, answer.error["field"]) == (422, "body")
    assert "a body has at most 4 MiB" in answer.error["message"]


def test_a_long_value_is_not_repeated_whole(shared: Arena) -> None:
    error = shared.ask("POST", "/arena/jobs", {"argv": ["true"], "time": "9" * 100_000}).error
    assert len(error["value"]) == 200 and error["value"].endswith(" ...")
    assert error["message"].endswith("90m, 2h30m or PT2H, largest unit first")


def test_a_body_without_a_length_is_cut_off(shared: Arena) -> None:
    """A chunked body could go on for ever."""
    head = f"POST /arena/jobs HTTP/1.1\r\nHost: arena\r\nAuthorization: Bearer {TOKENS['A']}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(DEADLINE)
        link.connect(str(shared.socket()))
        link.sendall(head.encode())
        try:
            for _ in range(200):
                link.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = link.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 422 ") and b"at most 4 MiB" in answer


def test_who_hangs_up_in_the_middle_does_no_harm(shared: Arena, caplog: pytest.LogCaptureFixture) -> None:
    head = f"POST /arena/jobs HTTP/1.1\r\nHost: arena\r\nAuthorization: Bearer {TOKENS['A']}\r\nContent-Length: 100\r\n\r\n"
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(shared.socket()))
            link.sendall(head.encode() + b'{"argv"')
    assert shared.ask("GET", "/arena/jobs").status == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    "line", [b"nonsense\r\n\r\n", b"GET /arena/status HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x00\xa5"]
)
def test_what_is_no_http(shared: Arena, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(DEADLINE)
        link.connect(str(shared.socket()))
        link.sendall(line)
        link.shutdown(socket.SHUT_WR)
        assert link.recv(100)[9:12] in (b"400", b"401", b"")


@pytest.mark.parametrize("key", ["short", "x" * 65, "with blank here", "käse-käse", "semi;colon", ""])
def test_odd_request_keys(shared: Arena, key: str) -> None:
    answer = shared.ask("POST", "/arena/jobs", {"argv": ["true"], "time": "1m"}, **{"Palestra-Request": key})
    assert (answer.status, answer.error["field"]) == (422, "Palestra-Request")
    assert "8 to 64 letters, digits, '_' or '-'" in answer.error["message"]


def test_agents_texts_go_in_cut_and_come_out_whole(arena: Arena) -> None:
    """Free text in an event is at most 2 KiB, whatever is sent; ids and paths are never cut."""
    arena.checkpoint("one")
    arena.run("seal", "one")
    note = "\x1b[31mred\x1b[0m \u202e" + "é" * 5_000
    answer = arena.ask("POST", "/arena/nominations", {"path": "one", "label": note, "note": note})
    assert answer.status == 201
    listed = arena.ask("GET", "/arena/nominations/A-n1").json
    assert listed["label"] == note[:80]
    told = next(event for event in arena.events if isinstance(event, NominationRequested))
    assert len(told.note.encode()) <= 2048 and told.note.endswith(" [cut]")
    arena.submit(name="x" * 100_000)
    assert arena.ask("GET", "/arena/jobs").json["jobs"][0]["name"] == "x" * 80
    # a refusal's text quotes what was asked: it is cut too
    arena.ask("POST", "/arena/nominations", {"path": "one", "settings": {"temperature": "9" * 100_000}})
    refused = next(event for event in arena.events if isinstance(event, Refused))
    assert len(refused.message.encode()) <= 2048
