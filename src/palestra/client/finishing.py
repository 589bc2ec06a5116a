"""`arena finish`: done for good, after saying what is left and being sure."""

from __future__ import annotations

import argparse
import sys

from palestra.client.connection import from_environment
from palestra.client.errors import Refused
from palestra.client.options import declare_request, new_key, request_key
from palestra.client.show import print_json, wrapped

UNCONFIRMED = "confirm_finish"


def declare_finish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="don't ask; needed where nobody can answer")
    parser.add_argument("--note", default="", metavar="TEXT", help="a last word for the record")
    declare_request(parser)


def finish(options: argparse.Namespace) -> int:
    arena = from_environment()
    if not options.yes:
        try:  # a key of its own: the answer to this question must not become the answer to the real request
            arena.ask("POST", "/arena/finish", {"note": options.note, "confirm": False}, key=new_key())
        except Refused as no:
            if no.code != UNCONFIRMED:
                raise
            _make_sure(no)
    answer = arena.ask(
        "POST", "/arena/finish", {"note": options.note, "confirm": True}, key=request_key(options)
    )
    if options.json:
        print_json(answer)
    else:
        print(f"finished at {answer['finished_t']}. Your current nomination stands.")
    return 0


def _make_sure(no: Refused) -> None:
    if not sys.stdin.isatty():
        raise Refused(no.code, f"{no.message} If you are sure: arena finish --yes", facts=no.facts)
    print(wrapped(no.message), file=sys.stderr)
    print("Finish for good? Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refused("not_finished", "nothing was done")
