"""One model call of the house harness: messages out through the gateway, a reply back, or the reason there is none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from palestra.client.connection import LATER, Answer, Connection
from palestra.client.errors import ArenaError, Refused, Unreachable

TIMEOUT = 900.0  # seconds that one reply may take
LONGEST_PAUSE = 60.0  # seconds between two tries, whatever the server asks for
SPENT = "insufficient_quota"


class CreditSpent(ArenaError):
    """The API credit is used up: no model call will be made any more."""

    exit_code = 4


class Reply(NamedTuple):
    """What the model said, and why it stopped: `stop`, `tool_calls`, `length`, ..."""

    message: dict[str, Any]
    finish: str


def ask_model(arena: Connection, body: dict[str, Any], say: Callable[[str], None]) -> Reply:
    """Ask until there is a reply. Waits while the server restarts, is paused, or asks to wait; raises when it is no use."""
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
    headers = {"Content-Type": "application/json"}
    deadline, pause = time.monotonic() + arena.patience, 0.25
    while True:
        asked: float | None = None
        try:
            answer = arena.send("POST", "/v1/chat/completions", data, headers, TIMEOUT)
            if answer.status < 300:
                return _reply(answer)
            why, asked = _why_not(answer)
        except LATER as error:
            why = str(error) or type(error).__name__
        except ValueError:
            why = "the answer can't be read"
        if asked is not None:  # somebody is there and says when to come back: that isn't silence
            deadline = time.monotonic() + arena.patience
        elif time.monotonic() >= deadline:
            raise Unreachable(f"the model gave no answer for {arena.patience:.0f} s ({why})")
        wait = min(LONGEST_PAUSE, pause if asked is None else asked)
        say(f"waiting {wait:.1f} s for the model: {why}")
        time.sleep(max(wait, 0.05))
        pause = min(2 * pause, 15.0) if asked is None else 0.25


def _reply(answer: Answer) -> Reply:
    try:
        choice = answer.json()["choices"][0]
        told = choice["message"]
        message = {"role": "assistant", "content": told.get("content") or ""}
        if told.get("tool_calls"):
            message["tool_calls"] = [dict(call) for call in told["tool_calls"]]
        return Reply(message, str(choice.get("finish_reason") or "stop"))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise ValueError("no choice in it") from None


def _why_not(answer: Answer) -> tuple[str, float | None]:
    """What stands in the way for now, and for how long; raises when waiting can't help."""
    try:
        error = answer.json()["error"]
        kind, message = str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")
    except (ValueError, KeyError, AttributeError):
        kind, message = "", answer.body[:200].decode("utf-8", "replace")
    if answer.status == 402 or kind == SPENT:
        raise CreditSpent(message or "the API credit is spent")
    if answer.status in (408, 409, 425, 429) or answer.status >= 500:
        return f"{answer.status} {kind} {message}".strip(), answer.retry_after()
    raise Refused(kind or f"http_{answer.status}", message, value=answer.status)
