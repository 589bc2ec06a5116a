"""What a model's message asks to have run: tool calls or fenced blocks in, commands out, or why one can't be run."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

LONGEST = 1800  # seconds a command may ask for
TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command in /bin/sh and get its output and exit code.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "the command"},
                "timeout_s": {"type": "number", "description": f"seconds it may take, at most {LONGEST}"},
            },
            "required": ["command"],
        },
    },
}
FENCE = re.compile(r"^```(?:sh|bash|shell)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Call(NamedTuple):
    """One command the model wants run. With a problem it isn't run; the problem is its result."""

    tool_call: str
    """The id to answer; empty for a command from a fenced block."""
    command: str = ""
    limit: float | None = None
    problem: str = ""


def read_tool_call(call: dict[str, Any]) -> Call:
    """A tool call as it came from the model, which may be anything."""
    ident = str(call.get("id") or "call")
    try:
        name = call["function"]["name"]
        given = json.loads(call["function"]["arguments"])
        command, limit = given.get("command"), given.get("timeout_s")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Call(ident, problem=f"[the call can't be read ({error}); nothing was run]")
    if name != "shell":
        return Call(ident, problem=f"[there is no tool {name!r}; the only one is `shell`; nothing was run]")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return Call(ident, problem="[`command` must be text with a command in it; nothing was run]")
    if limit is not None and not (isinstance(limit, int | float) and 0 < limit <= LONGEST):
        problem = f"[timeout_s {limit!r}: give seconds, more than 0, at most {LONGEST}; nothing was run]"
        return Call(ident, problem=problem)
    return Call(ident, command, limit)


def read_fences(text: str) -> list[Call]:
    """The shell blocks of a text, one command each; a block that isn't closed is none."""
    return [Call("", command) for command in FENCE.findall(text) if command.strip()]
