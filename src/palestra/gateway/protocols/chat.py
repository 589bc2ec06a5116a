"""OpenAI chat completions: requests in, the same bytes but for four permitted changes out; answers read as they pass.

Permitted changes to a body: the model's name becomes the upstream's; the output cap is written into `max_tokens` or
`max_completion_tokens`, whichever the client used (`max_tokens` where it used none, which most upstreams know); a stream
is asked for its usage. Only the top level is written again: every other value keeps the client's bytes, in its order.
What can't be bounded by the body's own bytes, or is billed by other things than tokens, is refused.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from palestra.gateway.protocols.chat_answers import ChatTap, identify
from palestra.gateway.protocols.shape import Asked, Message, Reply
from palestra.ports import PreparedCall
from palestra.rules.errors import BadInput, Broken, PalestraError, Refusal

T = TypeVar("T")

TEMPLATE_TOKENS = 256
"""Tokens that a model's chat template may add of its own, beyond one for each byte of the body."""

_KNOWN = frozenset(
    "model messages max_tokens max_completion_tokens stream stream_options n stop temperature top_p top_k min_p seed user "
    "presence_penalty frequency_penalty repetition_penalty logit_bias logprobs top_logprobs min_tokens ignore_eos "
    "stop_token_ids skip_special_tokens tools tool_choice parallel_tool_calls functions function_call response_format "
    "structured_outputs guided_json guided_regex guided_choice guided_grammar reasoning reasoning_effort include_reasoning "
    "thinking enable_thinking chat_template_kwargs verbosity metadata store safety_identifier prompt_cache_key "
    "prompt_cache_retention service_tier modalities".split()
)
"""Fields whose cost is tokens that the hold covers. Anything else is refused: its price isn't known."""
_CAPS = ("max_completion_tokens", "max_tokens")
_NULL = b"null"


class _Message(msgspec.Struct):
    role: str
    content: Raw = Raw(_NULL)
    audio: Raw = Raw(_NULL)


class _Typed(msgspec.Struct):
    type: str = "function"


_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_MESSAGES = msgspec.json.Decoder(list[_Message])
_RAW_MESSAGES = msgspec.json.Decoder(list[Raw])


class Chat:
    """`POST /v1/chat/completions`."""

    name = "chat"
    said_in = "messages"

    def read(self, path: str, body: bytes) -> Asked:
        """Facts of a request; what can't be read or priced raises, naming the field."""
        try:
            fields = _FIELDS.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInput("body", _shown(body), f"send a JSON object: {error}") from None
        for field in fields:
            if field not in _KNOWN:
                raise _unpriced(field, "what it costs isn't known here; leave it out")
        model = _value(fields, "model", str)
        if model is None:
            raise BadInput("model", None, "name one of the models that GET /v1/models lists")
        _check_input(fields)
        _check_extras(fields)
        options = _value(fields, "stream_options", dict[str, Raw]) or {}
        return Asked(
            model=model,
            asked_cap=_asked_cap(fields),
            input_bound=len(body) + TEMPLATE_TOKENS,
            streamed=_value(fields, "stream", bool) or False,
            wants_usage=bytes(options.get("include_usage", b"")) == b"true",
            body=body,
            fields=fields,
        )

    def prepare(self, asked: Asked, base: str, key: str, model: str, output_cap: int) -> PreparedCall:
        """The permitted changes, the real key, and no compression, so that usage can be read."""
        fields = dict(asked.fields)
        fields["model"] = Raw(msgspec.json.encode(model))
        for cap in [name for name in _CAPS if _given(fields, name)] or ["max_tokens"]:
            fields[cap] = Raw(b"%d" % output_cap)
        if asked.streamed and not asked.wants_usage:
            options = _value(fields, "stream_options", dict[str, Raw]) or {}
            fields["stream_options"] = Raw(msgspec.json.encode({**options, "include_usage": True}))
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if asked.streamed else "application/json"),
            ("accept-encoding", "identity"),
        ]
        if key:
            headers.append(("authorization", f"Bearer {key}"))
        return PreparedCall(
            url=base.rstrip("/") + "/chat/completions",
            headers=tuple(headers),
            body=msgspec.json.encode(fields),
            streamed=asked.streamed,
        )

    def tap(self, asked: Asked, media_type: str) -> ChatTap:
        """Reads an answer by what the upstream says it is, not by what was asked for."""
        streamed = media_type.strip().lower().startswith("text/event-stream")
        return ChatTap(streamed=streamed, hide_usage=asked.streamed and not asked.wants_usage)

    def messages(self, asked: Asked) -> tuple[Message, ...]:
        """Each message with the client's own bytes."""
        raws = [bytes(raw).strip() for raw in _RAW_MESSAGES.decode(asked.fields["messages"])]
        roles = [message.role for message in _MESSAGES.decode(asked.fields["messages"])]
        return tuple(Message(role, raw, identify(raw)) for role, raw in zip(roles, raws, strict=True))

    def identify(self, body: bytes) -> bytes:
        """Who said what, whatever the spelling."""
        return identify(body)

    def refuse(self, error: PalestraError, retry_after: int) -> Reply:
        """402 stops chat clients at once; 429 and 503 carry Retry-After, without which some give up and some storm."""
        status, kind, code, field = _classify(error)
        headers = [("content-type", "application/json")]
        if status in (402, 403):
            headers.append(("x-should-retry", "false"))
        if status in (429, 502, 503):
            headers.append(("retry-after", str(retry_after)))
        body = {"error": {"message": str(error), "type": kind, "param": field, "code": code}}
        return Reply(status, tuple(headers), msgspec.json.encode(body))


CHAT = Chat()

_STATUSES = {
    "credit_spent": (402, "insufficient_quota", "insufficient_quota"),
    "call_too_dear": (400, "invalid_request_error", "call_too_dear"),
    "credit_held": (429, "rate_limit_error", "credit_held"),
    "too_many_calls": (429, "rate_limit_error", "too_many_calls"),
    "upstream_busy": (429, "rate_limit_error", "upstream_busy"),
    "unknown_model": (404, "invalid_request_error", "model_not_found"),
    "unknown_route": (404, "invalid_request_error", "unknown_url"),
    "body_too_large": (413, "invalid_request_error", "body_too_large"),
    "field_not_allowed": (400, "invalid_request_error", "field_not_allowed"),
}


def _classify(error: PalestraError) -> tuple[int, str, str, str | None]:
    """(status, type, code, field) of a no."""
    if isinstance(error, BadInput):
        return 400, "invalid_request_error", "invalid_value", error.field
    if isinstance(error, Broken):
        return (502 if error.retry else 504), "server_error", "upstream_unreachable", None
    if isinstance(error, Refusal):
        if error.code in _STATUSES:
            field = error.subject if error.code == "field_not_allowed" else None
            return (*_STATUSES[error.code], field)
        if error.retry:
            return 503, "server_error", error.code, None
        return 403, "permission_error", error.code, None
    return 500, "server_error", "internal_error", None


def _given(fields: dict[str, Raw], name: str) -> bool:
    return name in fields and bytes(fields[name]) != _NULL


def _value(fields: dict[str, Raw], name: str, kind: type[T]) -> T | None:
    """The field as a value of `kind`; None where it is missing or null."""
    if not _given(fields, name):
        return None
    try:
        return msgspec.json.decode(fields[name], type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(name, _shown(bytes(fields[name])), str(error)) from None


def _asked_cap(fields: dict[str, Raw]) -> int | None:
    """The smaller of the caps that the client named."""
    caps = []
    for name in _CAPS:
        cap = _value(fields, name, int)
        if cap is not None and cap < 1:
            raise BadInput(name, cap, "ask for at least 1 token")
        if cap is not None:
            caps.append(cap)
    return min(caps, default=None)


def _check_input(fields: dict[str, Raw]) -> None:
    """Every token of the input must be in the body's bytes: text only."""
    messages = _value(fields, "messages", list[_Message])
    if not messages:
        raise BadInput("messages", messages, "send at least one message, each with a role")
    for index, message in enumerate(messages):
        field = f"messages[{index}].content"
        if bytes(message.audio) != _NULL:
            raise _unpriced(f"messages[{index}].audio", "only text is let through")
        content = bytes(message.content)
        if content.startswith(b"["):
            for part in _value({field: message.content}, field, list[_Typed]) or ():
                if part.type not in ("text", "refusal"):
                    raise _unpriced(
                        field,
                        f"{part.type!r} parts hold tokens that the body doesn't show; only text is let through",
                    )
        elif not content.startswith((b'"', b"n")):
            raise BadInput(field, _shown(content), "write text, a list of text parts, or null")


def _check_extras(fields: dict[str, Raw]) -> None:
    """One answer a call, no hosted tools, no dearer tier: a price for each would be needed."""
    if _value(fields, "n", int) not in (None, 1):
        raise _unpriced("n", "only one answer a call is let through; make several calls")
    if _value(fields, "service_tier", str) not in (None, "auto", "default"):
        raise _unpriced("service_tier", "only the default tier has a price here")
    if any(kind != "text" for kind in _value(fields, "modalities", list[str]) or ()):
        raise _unpriced("modalities", "only text is let through")
    for index, tool in enumerate(_value(fields, "tools", list[_Typed]) or ()):
        if tool.type not in ("function", "custom"):
            raise _unpriced(f"tools[{index}]", f"{tool.type!r} is a hosted tool, which has no price here")


def _unpriced(field: str, why: str) -> Refusal:
    return Refusal("field_not_allowed", f"{field}: {why}", subject=field)


def _shown(data: bytes) -> str:
    text = data[:100].decode("utf-8", "replace")
    return text if len(data) <= 100 else text + " ..."
