"""`arena seal` and `arena nominate`: a folder with weights frozen, then put forward to be judged."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palestra.client import manifest, show
from palestra.client.connection import Connection, from_environment
from palestra.client.errors import BadUsage, Refused
from palestra.client.options import below_home, declare_request, request_key, seconds

POLL = 30  # seconds; one long poll
SETTLED = ("accepted", "rejected", "failed", "withdrawn")


def declare_seal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the checkpoint's folder, with nothing else in it")
    parser.add_argument("--step", type=int, metavar="N", help="the training step it was saved at")
    parser.add_argument(
        "--parent", action="append", default=[], metavar="DIGEST", help="an artifact it was made from"
    )
    declare_request(parser)


def seal(options: argparse.Namespace) -> int:
    path = below_home(options.folder, "the folder")
    sealed = _seal_folder(Path(options.folder), options.step, options.parent)
    answer = from_environment().ask("POST", "/arena/seals", {"path": path}, key=request_key(options))
    if answer["artifact"] != sealed.digest:
        raise Refused(
            "source_changed", f"the arena read {answer['artifact']}, this command wrote {sealed.digest}"
        )
    if options.json:
        show.print_json(answer)
        return 0
    print(f"checkpoint {answer['checkpoint']}")
    print(
        show.facts(
            [("digest", sealed.digest), ("holds", f"{_files(sealed.files)}, {show.size(sealed.size)}")]
        )
    )
    return 0


def _seal_folder(folder: Path, step: int | None, parents: list[str]) -> manifest.Sealed:
    sealed = manifest.seal_folder(folder, step=step, parents=parents)
    if sealed.odd:
        some = ", ".join(sealed.odd[:5]) + (", ..." if len(sealed.odd) > 5 else "")
        allowed = ", ".join(f"*{ending}" for ending in manifest.NOMINABLE)
        warning = f"arena: sealed, but it can't be nominated with {some} in it; allowed are {allowed}"
        print(show.wrapped(warning, "  "), file=sys.stderr)
    return sealed


def declare_nominate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", metavar="DIR", help="a sealed folder; unless given, lists your nominations"
    )
    answers = parser.add_argument_group("how the model is to be asked; unless given, as the rules say")
    answers.add_argument("--system-prompt", metavar="TEXT")
    answers.add_argument("--temperature", metavar="X", help="such as 0.2")
    answers.add_argument("--top-p", metavar="X")
    answers.add_argument("--repetition-penalty", metavar="X")
    answers.add_argument("--max-tokens", type=int, metavar="N")
    answers.add_argument(
        "--stop", action="append", metavar="TEXT", help="ends an answer; may be given several times"
    )
    parser.add_argument("--label", default="", metavar="TEXT", help="a short name for it")
    parser.add_argument("--note", default="", metavar="TEXT", help="what it is and why")
    parser.add_argument(
        "--wait",
        nargs="?",
        const="",
        metavar="DURATION",
        help="until it is accepted or not (exit 1), or for so long: 5m",
    )
    declare_request(parser)


def nominate(options: argparse.Namespace) -> int:
    if options.folder is None:
        return _list_nominations(options)
    limit = seconds(options.wait) if options.wait else None
    path, folder = below_home(options.folder, "the folder"), Path(options.folder)
    if not folder.is_dir():
        raise BadUsage(f"{options.folder!r} is not a folder")
    if not (folder / manifest.FILE_NAME).exists():
        sealed = _seal_folder(folder, None, [])
        if not options.json:
            print(f"sealed first: {_files(sealed.files)}, {show.size(sealed.size)}, {sealed.digest[:19]}…")
    elif changed := manifest.changes(folder):
        raise Refused(
            "changed_since_seal",
            f"{', '.join(changed[:5])}: not as sealed; run `arena seal {options.folder}` again",
        )
    asked = {"path": path, "settings": _settings(options), "label": options.label, "note": options.note}
    arena = from_environment()
    answer = arena.ask("POST", "/arena/nominations", asked, key=request_key(options))
    if options.wait is None:
        if options.json:
            show.print_json(answer)
        else:
            print(f"nomination {answer['nomination']}\nstate  {answer['state']}")
        return 0
    if not options.json:
        print(f"nomination {answer['nomination']}", flush=True)
    nomination = _until_settled(arena, str(answer["nomination"]), limit)
    if options.json:
        show.print_json(nomination)
    else:
        print(show.facts(_rows(nomination)))
    return 0 if nomination["state"] == "accepted" else 1


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("system_prompt", "temperature", "top_p", "repetition_penalty", "max_tokens", "stop")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _until_settled(arena: Connection, nomination: str, limit: float | None) -> dict[str, Any]:
    deadline = None if limit is None else time.monotonic() + limit
    path = f"/arena/nominations/{quote(nomination, safe='')}"
    while True:
        left = POLL if deadline is None else max(0, min(POLL, int(deadline - time.monotonic())))
        answer = arena.ask("GET", f"{path}?wait={left}" if left else path, wait=left)
        if answer["state"] in SETTLED or not left:
            return answer


def _list_nominations(options: argparse.Namespace) -> int:
    if options.wait is not None:
        raise BadUsage("--wait goes with a folder to nominate")
    answer = from_environment().ask("GET", "/arena/nominations")
    if options.json:
        show.print_json(answer)
    else:
        print("\n".join(_details(nomination) for nomination in answer["nominations"]) or "no nominations yet")
    return 0


def _details(nomination: dict[str, Any]) -> str:
    return f"{nomination['id']}\n" + show.facts(_rows(nomination))


def _rows(nomination: dict[str, Any]) -> list[tuple[str, str]]:
    current = ", current" if nomination.get("current") else ""
    code = f" ({nomination['code']})" if nomination.get("code") else ""
    return [
        ("state", f"{nomination['state']}{current}{code}"),
        ("why", str(nomination.get("message") or "")),
        ("label", str(nomination.get("label") or "")),
        ("kind", str(nomination.get("kind") or "")),
        ("digest", str(nomination.get("artifact") or "")),
        ("asked", str(nomination.get("requested_t") or "")),
    ]


def _files(n: int) -> str:
    return "1 file" if n == 1 else f"{n} files"
