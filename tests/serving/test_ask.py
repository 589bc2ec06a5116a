"""One question over a unix socket: the settings that go out, and what becomes of every kind of bad answer."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palestra.events.nominations import AnswerSettings
from palestra.ports import Answer, Endpoint, Question
from palestra.rules.errors import BadInput
from palestra.rules.units import SECOND, Micros
from palestra.serving.ask import Unanswered, ask, ask_or_raise, is_healthy, list_models, request_body

QUESTION = Question("q1", (("user", "hi"),), 50)
SETTINGS = AnswerSettings()


class Canned:
    """A server on a socket that gives one prepared answer to every connection."""

    def __init__(self, folder: Path, answer: bytes) -> None:
        self.answer = answer
        self.path = str(folder / "s")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen(16)
        self.open: list[socket.socket] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.open.append(connection)
            self._take_request(connection)
            connection.sendall(self.answer)
            if self.answer:
                connection.close()

    @staticmethod
    def _take_request(connection: socket.socket) -> None:
        """All of it: closing with something unread would cut the answer off."""
        with connection.makefile("rb") as file:
            length = 0
            while line := file.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            file.read(length)

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(5)
        for connection in self.open:
            connection.close()


@pytest.fixture
def canned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bytes], Endpoint]]:
    made: list[Canned] = []

    def make(answer: bytes) -> Endpoint:
        made.append(Canned(tmp_path_factory.mktemp("c"), answer))
        return Endpoint(made[-1].path, "m")

    yield make
    for server in made:
        server.close()


def response(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def completion(content: str, finish: str) -> bytes:
    return response(
        b'{"choices":[{"message":{"content":%s},"finish_reason":"%s"}]}' % (content.encode(), finish.encode())
    )


def test_settings_are_applied_by_us() -> None:
    """S67: the same settings whatever the server; the smaller of the two limits holds."""
    settings = AnswerSettings(
        system_prompt="be kind",
        temperature="0.70",
        top_p="0.9",
        repetition_penalty="1.05",
        max_tokens=20,
        stop=("END",),
    )
    assert request_body("m", QUESTION, settings) == {
        "model": "m",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "repetition_penalty": 1.05,
        "max_tokens": 20,
        "stop": ["END"],
    }


def test_what_is_left_empty_is_the_servers_default() -> None:
    settings = AnswerSettings(temperature="", top_p="", repetition_penalty="", max_tokens=99)
    assert request_body("m", QUESTION, settings) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 50,
    }


@pytest.mark.parametrize("value", ["hot", "nan", "1e999"])
def test_a_setting_that_is_no_number_is_named(value: str) -> None:
    with pytest.raises(BadInput, match="settings: temperature"):
        request_body("m", QUESTION, AnswerSettings(temperature=value))


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (completion('"abc"', "stop"), Answer("q1", "abc", "stop")),
        (completion('"ab"', "length"), Answer("q1", "ab", "length")),
        (completion("null", "stop"), Answer("q1", "", "stop")),
        (completion('"ab"', "content_filter"), Answer("q1", "ab", "error")),
        (
            b'HTTP/1.0 200 OK\r\n\r\n{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}',
            Answer("q1", "x", "stop"),
        ),
    ],
)
def test_an_answer_is_taken_as_given(
    canned: Callable[[bytes], Endpoint], said: bytes, answer: Answer
) -> None:
    assert ask(canned(said), QUESTION, SETTINGS) == answer


@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (response(b'{"error":{"message":"loading"}}', "503 Service Unavailable"), 503, "loading"),
        (response(b"not json"), 200, "not JSON"),
        (response(b"[1]"), 200, "no JSON object"),
        (response(b'{"choices":[]}'), 200, "not a chat completion"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 0, "IncompleteRead"),
        (b"what?\r\n\r\n", 0, "BadStatusLine"),
    ],
)
def test_every_bad_answer_is_an_error_with_its_reason(
    canned: Callable[[bytes], Endpoint], said: bytes, status: int, why: str
) -> None:
    endpoint = canned(said)
    with pytest.raises(Unanswered, match=why) as caught:
        ask_or_raise(endpoint, QUESTION, SETTINGS)
    assert caught.value.status == status
    assert ask(endpoint, QUESTION, SETTINGS) == Answer("q1", "", "error")


def test_a_server_that_says_nothing_is_left_in_time(canned: Callable[[bytes], Endpoint]) -> None:
    with pytest.raises(Unanswered, match="could not be asked: TimeoutError"):
        ask_or_raise(canned(b""), QUESTION, SETTINGS, Micros(SECOND // 20))


def test_nobody_there_is_an_error_not_a_crash(tmp_path: Path) -> None:
    endpoint = Endpoint(str(tmp_path / "s"), "m")
    assert ask(endpoint, QUESTION, SETTINGS).finish == "error"
    assert not is_healthy(endpoint.socket)


def test_a_list_of_models_that_cannot_be_read_is_no_list(canned: Callable[[bytes], Endpoint]) -> None:
    with pytest.raises(Unanswered, match="/v1/models gave"):
        list_models(canned(response(b'{"data":[{"name":"x"}]}')).socket)
