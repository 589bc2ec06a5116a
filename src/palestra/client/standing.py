"""`arena status` and `arena rules`: where the corner stands and what was agreed, from the arena to the screen."""

from __future__ import annotations

import argparse
from typing import Any

from palestra.client.connection import from_environment
from palestra.client.options import declare_json
from palestra.client.show import facts, print_json, wrapped

declare_status = declare_json
declare_rules = declare_json


def status(options: argparse.Namespace) -> int:
    answer = from_environment().ask("GET", "/arena/status")
    if options.json:
        print_json(answer)
    else:
        print(status_text(answer))
    return 0


def rules(options: argparse.Namespace) -> int:
    text = from_environment().fetch("GET", "/arena/rules").body.decode("utf-8", "replace")
    if options.json:
        print_json({"rules": text})
    else:
        print(text.rstrip("\n"))
    return 0


def status_text(status: dict[str, Any]) -> str:
    """The answer to `GET /arena/status` for people; the house harness shows it to its model too."""
    left, right = f"{status['title']}: corner {status['corner']}, {status['name']}", str(status["t"])
    head = f"{left:<{max(len(left), 78 - len(right))}}  {right}"
    slots = "; a GPU here is a slot, shared CPU time" if "slot" in str(status.get("gpus_are")) else ""
    rows = [
        ("stage", _stage(status)),
        ("API credit", _account(status["api"]["shown"])),
        ("GPU-time", _account(status["gpu"]["shown"]) + slots),
        ("jobs", f"{status['jobs']['running']} running, {status['jobs']['queued']} queued"),
        ("nominated", _nomination(status.get("nomination"))),
        ("binding", str(status.get("binding") or "")),
        ("isolation", str(status.get("isolation") or "")),
        *(("notice", _notice(notice)) for notice in status.get("notices") or []),
    ]
    return head + "\n" + facts(rows)


def finished(status: dict[str, Any]) -> bool:
    """Whether this corner has finished for good."""
    return bool(status.get("finished_t"))


def _stage(status: dict[str, Any]) -> str:
    stage = str(status["stage"])
    if status.get("left"):
        stage += f", {status['left']} left"
    if status.get("stage_ends_shown"):
        stage += f", ends {status['stage_ends_shown']}"
    if status.get("paused"):
        stage += "; PAUSED: no calls, no starts"
    return stage + ("; you have finished" if finished(status) else "")


def _account(shown: dict[str, Any]) -> str:
    held = f", {shown['held']} held" if shown.get("held") else ""
    return f"{shown['left']} left of {shown['limit']} ({shown['spent']} spent{held})"


def _nomination(nomination: dict[str, Any] | None) -> str:
    if not nomination:
        return "nothing yet"
    label = f", {nomination['label']!r}" if nomination.get("label") else ""
    return f"{nomination['id']} ({nomination.get('kind') or 'kind not known yet'}{label}), since {nomination['since_t']}"


def _notice(notice: Any) -> str:
    if isinstance(notice, dict):
        return wrapped(" ".join(str(notice[key]) for key in ("t", "text") if notice.get(key)))
    return str(notice)
