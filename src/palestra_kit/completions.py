"""Reads the body of a chat completion, field by field, and writes the answer's body. Every field that is not known is refused by name."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, NamedTuple

from palestra_kit.chat import Chat
from palestra_kit.errors import KitError
from palestra_kit.generate import Answer, Ask, Sampling
from palestra_kit.rows import read_messages
from palestra_kit.wire import HttpError, Response

DEFAULT_MAX_TOKENS = 64
MOST_TOKENS = 4_096
MOST_STOPS, LONGEST_STOP = 4, 64
HIGHEST_TEMPERATURE = 2.0
HIGHEST_PENALTY = 2.0
FIELDS = (
    "model",
    "messages",
    "temperature",
    "top_p",
    "seed",
    "max_tokens",
    "stop",
    "repetition_penalty",
    "stream",
)


class Completion(NamedTuple):
    model: str
    ask: Ask
    sampling: Sampling


def read_completion(body: bytes, chat: Chat, models: Collection[str], default_model: str) -> Completion:
    """A request as the generator takes it; HttpError 400 or 404 names the field, its value and what would be right."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body must be a JSON object")
    for name in fields:
        if name not in FIELDS:
            raise HttpError(
                HTTPStatus.BAD_REQUEST, f"{name!r} is not known here; known are: {', '.join(FIELDS)}", name
            )
    if fields.get("stream", False) is not False:
        raise HttpError(HTTPStatus.BAD_REQUEST, "stream must be false; answers come whole", "stream")
    model = fields.get("model", default_model)
    if model not in models:
        raise HttpError(
            HTTPStatus.NOT_FOUND, f"model {model!r} is not served; served are: {', '.join(models)}", "model"
        )
    sampling = Sampling(
        temperature=_number(fields, "temperature", 0.0, 0.0, HIGHEST_TEMPERATURE),
        top_p=_number(fields, "top_p", 1.0, 0.001, 1.0),
        repetition_penalty=_number(fields, "repetition_penalty", 1.0, 0.5, HIGHEST_PENALTY),
    )
    ask = Ask(
        ids=_prompt(fields.get("messages"), chat),
        max_tokens=_whole(fields, "max_tokens", DEFAULT_MAX_TOKENS, 1, MOST_TOKENS),
        stop=_stops(fields.get("stop")),
        # Without a seed two sampled answers should differ, as everywhere else.
        seed=_whole(fields, "seed", None, -(2**63), 2**63 - 1),
    )
    return Completion(model, ask, sampling)


def write_completion(number: int, completion: Completion, answer: Answer) -> Response:
    read = len(completion.ask.ids)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text},
        "finish_reason": answer.finish,
    }
    return Response(
        HTTPStatus.OK,
        {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": completion.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": answer.tokens,
                "total_tokens": read + answer.tokens,
            },
        },
    )


def _prompt(value: object, chat: Chat) -> list[int]:
    try:
        messages = read_messages(value, "the request")
    except KitError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error), "messages") from None
    if messages[-1].role != "user":
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"the last message is of role {messages[-1].role!r}; it must be 'user'",
            "messages",
        )
    ids = chat.encode(messages, answer_next=True).ids
    if len(ids) >= chat.context:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"the messages have {len(ids)} tokens; the model's context of {chat.context} leaves no room",
            "messages",
        )
    return ids


def _number(fields: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = fields.get(name, default)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise HttpError(
            HTTPStatus.BAD_REQUEST, f"{name} is {value!r}; it must be a number from {low:g} to {high:g}", name
        )
    return float(value)


def _whole(fields: dict[str, Any], name: str, default: int | None, low: int, high: int) -> int:
    value = fields.get(name)
    if value is None:
        return secrets.randbits(63) if default is None else default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"{name} is {value!r}; it must be a whole number from {low} to {high}",
            name,
        )
    return value


def _stops(value: object) -> tuple[str, ...]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > MOST_STOPS
        or not all(isinstance(one, str) and 1 <= len(one) <= LONGEST_STOP for one in stops)
    ):
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"stop is {value!r}; it must be up to {MOST_STOPS} texts of 1 to {LONGEST_STOP} characters",
            "stop",
        )
    return tuple(stops)
