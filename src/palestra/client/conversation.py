"""The house harness's memory: entries appended to one file as they happen, read back after any crash.

Each line is one JSON object and one of:
    {"begin": [messages]}                          a context begins, the first one or the next
    {"message": {...}, "finish": "stop"}           what the model said, and why it stopped
    {"message": {...}, "answers": 0}               the result of the model's last message's call 0
    {"message": {...}}                             what the harness said
    {"running": 0}                                 call 0 is about to run; without an answer after it: unknown
    {"reset": 12, "carried": "..."}                the context is dropped after 12 turns in all
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from palestra.client.errors import Refused

Message = dict[str, Any]


class Conversation:
    """One file, and what it comes to. `messages` is what the model is sent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[Message] = []
        self.turns = 0
        """Messages of the model, over all contexts."""
        self.finish = ""
        """Why the model's last message ended."""
        self.answered: set[int] = set()
        self.running: set[int] = set()
        self.carried = ""
        """What the last context left for this one."""
        self.size = 0
        """Bytes of the messages as JSON."""
        self._file = path.open("ab+")
        self._read()

    def begin(self, messages: list[Message]) -> None:
        self._write({"begin": messages})

    def hear(self, message: Message, finish: str) -> None:
        """The model spoke."""
        self._write({"message": message, "finish": finish})

    def run(self, call: int) -> None:
        """Call `call` of the model's last message is about to run."""
        self._write({"running": call})

    def answer(self, call: int, message: Message) -> None:
        """The result of that call."""
        self._write({"message": message, "answers": call})

    def tell(self, text: str) -> None:
        """The harness says something to the model."""
        self._write({"message": {"role": "user", "content": text}})

    def reset(self, carried: str) -> None:
        self._write({"reset": self.turns, "carried": carried})

    @property
    def last(self) -> Message:
        return self.messages[-1]

    def last_reply(self) -> Message | None:
        """The model's last message of this context."""
        return next((message for message in reversed(self.messages) if message["role"] == "assistant"), None)

    def close(self) -> None:
        self._file.close()

    def _write(self, entry: dict[str, Any]) -> None:
        """On disk before anything follows from it."""
        line = _json(entry)
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._fold(json.loads(line))

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # the last line was being written when the harness died
            self._file.truncate(whole)
        for n, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
            try:
                self._fold(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise Refused(
                    "not_a_conversation", f"{self.path}: line {n} can't be read; move the file away"
                ) from None

    def _fold(self, entry: dict[str, Any]) -> None:
        if "begin" in entry:
            self._add(*entry["begin"])
        elif "running" in entry:
            self.running.add(entry["running"])
        elif "reset" in entry:
            self.messages, self.size, self.finish = [], 0, ""
            self.carried = entry["carried"]
            self.answered, self.running = set(), set()
        else:
            self._add(entry["message"])
            if "finish" in entry:
                self.turns += 1
                self.finish = entry["finish"]
                self.answered, self.running = set(), set()
            elif "answers" in entry:
                self.answered.add(entry["answers"])

    def _add(self, *messages: Message) -> None:
        self.messages += messages
        self.size += sum(len(_json(message)) for message in messages)


def _json(value: object) -> bytes:
    """One line; a half of a surrogate pair, which UTF-8 can't hold, becomes its JSON escape."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
