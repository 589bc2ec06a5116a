"""Reads and writes JSONL files of training rows and questions: one object a line, each error with file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palestra_kit.errors import KitError

ROLES = ("system", "user", "assistant")


class Message(NamedTuple):
    role: str
    content: str


class Row(NamedTuple):
    """`raw` is the object as it stood in the file, for writing it back unchanged."""

    messages: tuple[Message, ...]
    family: str
    raw: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        return next((message.content for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def answer(self) -> str:
        return self.messages[-1].content if self.messages[-1].role == "assistant" else ""


def read_rows(path: Path) -> list[Row]:
    """Rows of either shape: {"prompt", "answer", "family"?} or {"messages": [{"role", "content"}, ...], "family"?}."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KitError(f"{path} does not exist; give a JSONL file of rows") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KitError(f"{path} cannot be read as UTF-8 text: {error}") from None
    # Not splitlines(): that also breaks at characters such as U+2028, which JSON strings may hold.
    rows = [
        _row(line, f"{path} line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()
    ]
    if not rows:
        raise KitError(f"{path} holds no rows")
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _row(line: str, where: str) -> Row:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise KitError(f"{where}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise KitError(f'{where}: {line[:60]!r} is not an object; a row is {{"prompt": ..., "answer": ...}}')
    family = value.get("family", "")
    if not isinstance(family, str):
        raise KitError(f"{where}: family is {family!r}; it must be a text")
    if "messages" in value:
        return Row(tuple(read_messages(value["messages"], where)), family, value)
    for field in ("prompt", "answer"):
        if not isinstance(value.get(field), str):
            raise KitError(f"{where}: {field} is {value.get(field)!r}; it must be a text")
    return Row((Message("user", value["prompt"]), Message("assistant", value["answer"])), family, value)


def read_messages(value: object, where: str) -> list[Message]:
    """A list of {"role", "content"} objects as messages; KitError names the one that is wrong."""
    if not isinstance(value, list) or not value:
        raise KitError(f"{where}: messages must be a list with at least one message")
    messages = []
    for number, one in enumerate(value):
        name = f"{where}: messages[{number}]"
        if not isinstance(one, dict) or set(one) != {"role", "content"}:
            raise KitError(f"{name} must have exactly the fields role and content")
        if one["role"] not in ROLES:
            raise KitError(f"{name}.role is {one['role']!r}; it must be one of: {', '.join(ROLES)}")
        if not isinstance(one["content"], str):
            raise KitError(f"{name}.content is {type(one['content']).__name__}; only text is served")
        messages.append(Message(one["role"], one["content"]))
    return messages
