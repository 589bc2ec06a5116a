"""`arena house`, the house harness: asks the model, runs the shell commands it answers with, gives back their output, repeats.

All it does follows from the conversation file, so that a restart, even after kill -9, goes on where it was: a command is
written down before it runs, and one without a result is never run again. When the conversation has grown past its
size it begins anew from the rules, the status and NOTES.md, which is therefore the agent's only lasting memory.

Exit codes: 0 finished, or the model has nothing more to do; 2 bad usage; 3 no answer from the server or the model for
minutes; 4 API credit spent; 5 the model's endpoint refuses.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import Any

from palestra.client.calls import TOOL, Call, read_fences, read_tool_call
from palestra.client.chat import CreditSpent, ask_model
from palestra.client.connection import Connection, from_environment
from palestra.client.conversation import Conversation, Message
from palestra.client.errors import BadUsage, Refused
from palestra.client.options import seconds
from palestra.client.shell import kill_left_over, run_command
from palestra.client.show import cut
from palestra.client.standing import finished, status_text

PATIENCE = 600.0  # seconds without an answer, before it gives up
NOTES = "NOTES.md"
HOW = """\
You act through one tool, `shell`: it runs a command in /bin/sh in your home and gives back what it prints, standard output
and error together, cut in the middle when it is long. Every command starts in your home; nothing can be typed into it.
It is stopped after {limit:g} s unless you give `timeout_s`; long work belongs into jobs (`arena submit`).
Your conversation is cleared when it has grown long: only the file NOTES.md in your home stays. Keep in it what you
know, what you tried, with figures, and what you will do next, and keep it short.
If you can't call tools, write exactly one command, or several lines of one, in a block that begins with ```sh."""
NUDGE = "That held no command, so nothing was run. Go on with the `shell` tool; when all is done, run `arena finish --yes`."
CUT = "Your last message was cut off by the output limit, so no command in it was run. Say it again, shorter or in steps."
UNKNOWN = """\
[interrupted: the harness was restarted while this command ran. It is unknown whether it ran or how far it got; it isn't run
again. Look before you repeat it.]"""
CUT_OFF = ("length", "content_filter")


def declare_house(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command-limit", default="120s", metavar="DURATION", help="for one command: 120s unless given"
    )
    parser.add_argument(
        "--context-bytes", type=int, default=200_000, metavar="N", help="conversation size that is too much"
    )
    parser.add_argument(
        "--idle", type=int, default=3, metavar="N", help="replies in a row without a command that end it: 3"
    )
    parser.add_argument(
        "--fences", action="store_true", help="don't offer the tool: for models that know only ```sh blocks"
    )


def house(options: argparse.Namespace) -> int:
    if not os.environ.get("PALESTRA_MODEL"):
        raise BadUsage("PALESTRA_MODEL isn't set: which model is to be asked?")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    home = Path(os.environ.get("HOME") or ".").resolve()
    (home / ".house").mkdir(exist_ok=True)
    with (home / ".house" / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadUsage(f"another house harness is at work in {home}") from None
        harness = Harness(from_environment(PATIENCE), home, options)
        try:
            return harness.run()
        except CreditSpent as spent:
            harness.note(f"API credit is spent, no more model calls: {spent}")
            print(f"stopped: {spent}", flush=True)
            return spent.exit_code
        except SystemExit:
            # TERM may strike just when a command starts, before anything here knows its process.
            kill_left_over(home / ".house")
            raise
        except Refused as no:
            print(f"arena: the model or the arena refuses ({no.code}): {no}", file=sys.stderr)
            return 5


class Harness:
    """The loop: answer what is open, see whether it is over, ask the model."""

    def __init__(self, arena: Connection, home: Path, options: argparse.Namespace) -> None:
        self.arena = arena
        self.home = home
        self.limit = seconds(options.command_limit)
        self.context: int = options.context_bytes
        self.idle: int = options.idle
        self.fences: bool = options.fences
        self.model = os.environ["PALESTRA_MODEL"]
        self.prompt = os.environ.get(
            "PALESTRA_PROMPT", "Make the best model you can, by the rules below, and nominate it."
        )
        self.env = {name: value for name, value in os.environ.items() if name != "PALESTRA_PROMPT"}
        self.conversation = Conversation(home / ".house" / "conversation.jsonl")

    def run(self) -> int:
        conversation, idle = self.conversation, 0
        kill_left_over(self.home / ".house")
        while True:
            if not conversation.messages:
                conversation.begin(self.first_messages())
            did_something = self.answer_open_calls()
            if did_something and finished(self.arena.ask("GET", "/arena/status")):
                print("finished", flush=True)
                return 0
            idle = 0 if did_something else idle
            if conversation.last["role"] == "assistant":  # it asked for nothing that could be run
                idle += 1
                if idle >= self.idle:
                    print(f"no command to run in {idle} replies", flush=True)
                    return 0
                conversation.tell(CUT if conversation.finish in CUT_OFF else NUDGE)
            if conversation.size > self.context and conversation.last_reply():
                print("the conversation is long enough: it begins anew from the notes", flush=True)
                self.begin_anew()
                continue
            self.ask()

    def begin_anew(self) -> None:
        """Drop the context; what came of the last turn is carried over, as the model hasn't seen it yet."""
        at = max(n for n, message in enumerate(self.conversation.messages) if message["role"] == "assistant")
        reply, *results = self.conversation.messages[at:]
        asked = [reply["content"], *(call.command for call in self.calls(reply))]
        carried = "\n".join([*asked, *(message["content"] for message in results)])
        self.conversation.reset(_middle_out(carried.strip(), self.context // 4))

    def first_messages(self) -> list[Message]:
        rules = self.arena.fetch("GET", "/arena/rules").body.decode("utf-8", "replace")
        status = status_text(self.arena.ask("GET", "/arena/status"))
        notes = self.home / NOTES
        kept = notes.read_bytes().decode("utf-8", "backslashreplace").strip() if notes.is_file() else ""
        parts = [
            f"Turns so far: {self.conversation.turns}",
            f"# The rules (`arena rules`)\n\n{rules.strip()}",
            f"# Where you stand (`arena status`)\n\n{status}",
            f"# Your notes ({NOTES})\n\n{_middle_out(kept, self.context // 4) or '(none yet)'}",
        ]
        if self.conversation.carried:
            parts.append(f"# The last thing you did, and what came of it\n\n{self.conversation.carried}")
        system = f"{self.prompt.strip()}\n\n{HOW.format(limit=self.limit)}"
        return [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(parts)}]

    def ask(self) -> None:
        """One turn of the model, on disk before anything is done about it."""
        body: dict[str, Any] = {"model": self.model, "messages": self.conversation.messages}
        try:
            reply = ask_model(self.arena, body if self.fences else {**body, "tools": [TOOL]}, _say)
        except Refused as no:
            if no.value not in (400, 413) or not self.conversation.last_reply():
                raise
            _say(f"the model refuses the conversation ({no}): it begins anew from the notes")
            self.begin_anew()
            return
        message = reply.message
        if reply.finish in CUT_OFF:  # a cut call is no call, even where it looks whole (F10)
            message = {"role": "assistant", "content": message["content"] or "(cut off)"}
        self.conversation.hear(message, reply.finish)
        _say(f"turn {self.conversation.turns}, {reply.finish}: {cut(message['content'], 200)}")

    def answer_open_calls(self) -> bool:
        """Run what the model's last message asks for and has no result yet; whether there was anything."""
        conversation, reply = self.conversation, self.conversation.last_reply()
        if reply is None or conversation.finish in CUT_OFF:
            return False
        open_calls = [(n, call) for n, call in enumerate(self.calls(reply)) if n not in conversation.answered]
        for n, call in open_calls:
            if n in conversation.running:
                text = UNKNOWN
            elif call.problem:
                text = call.problem
            else:
                conversation.run(n)
                _say(f"turn {conversation.turns}, shell: {cut(call.command, 200)}")
                limit = call.limit or self.limit
                text = run_command(call.command, limit, self.home, self.env, self.home / ".house").text()
            if conversation.size > 0.8 * self.context:
                text += f"\n[the conversation will soon be cleared; bring {NOTES} up to date now]"
            by_tool = {"role": "tool", "tool_call_id": call.tool_call, "content": text}
            conversation.answer(n, by_tool if call.tool_call else {"role": "user", "content": text})
        return bool(open_calls)

    def calls(self, reply: Message) -> list[Call]:
        """What a message asks to have run. A model that has used the tool is not taken at its fences."""
        if reply.get("tool_calls"):
            return [read_tool_call(call) for call in reply["tool_calls"]]
        if not self.fences and any(message.get("tool_calls") for message in self.conversation.messages):
            return []
        return read_fences(reply["content"])

    def note(self, line: str) -> None:
        """Add a line to the notes, once."""
        notes = self.home / NOTES
        text = notes.read_text(errors="replace") if notes.is_file() else ""
        if line not in text:
            with notes.open("a") as file:
                file.write(f"\n{line}\n")


def _middle_out(text: str, most: int) -> str:
    """Text of at most about `most` characters, cut visibly in the middle."""
    half = most // 2
    return (
        text
        if len(text) <= most
        else f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    )


def _say(text: str) -> None:
    print(text, flush=True)
