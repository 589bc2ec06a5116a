"""Hostile text made safe to look at: characters in, markup out, in which nothing acts and nothing hides.

Control characters, escape sequences, direction marks and invisible characters are shown as chips, and so are the special
tokens of chat models. Nothing is interpreted: no colour, no link, no cursor. What is too long is cut, and the cut is shown.
"""

from __future__ import annotations

import re

import msgspec
from markupsafe import Markup, escape

from palestra.events.masking import Secret, mask

LIMIT = 6_000
"""Characters of one piece of text that a page shows."""
LINES = 120
_NAMES = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split()
_MARGIN = 600
"""No known secret is longer: what is masked reaches this far beyond what is shown."""
_ODD = re.compile(
    r"(?P<esc>\x1b[\]PX^_][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)?|\x1b\[[0-9:;<=>?]{0,40}[ -/]{0,4}[@-~]?|\x1b[ -/]?[0-~]?)"
    r"|(?P<end>\r\n|\r)"
    r"|(?P<token><\|[^|<>\s]{1,40}\|>|</?s>|<(?:bos|eos|pad|unk|mask|endoftext|(?:start|end)_of_turn)>|\[/?INST\])"
    r"|(?P<masked>\[masked\])"
    r"|(?P<sign>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff])"
)


class Shown(msgspec.Struct, frozen=True):
    """A text as a page shows it: its beginning, what is left out, its end."""

    head: Markup
    left_out: str = ""
    tail: Markup = Markup()

    def __bool__(self) -> bool:
        return bool(self.head or self.tail)


def show(text: str, secrets: tuple[Secret, ...], *, limit: int = LIMIT, lines: int = LINES) -> Shown:
    """Masked, cut in the middle, and visible."""
    return cut(masked_ends(text, secrets, limit), len(text), limit, lines)


def show_tail(text: str, secrets: tuple[Secret, ...], *, limit: int, lines: int) -> Shown:
    """The end of a text, from the beginning of a line where there is one."""
    kept = mask(text[-(limit + _MARGIN) :], secrets)[-limit:]
    rows = kept.split("\n")
    if len(rows) > 1 and len(text) > limit:
        rows = rows[1:]
    return Shown(visible("\n".join(rows[-lines:])))


def line(text: str, secrets: tuple[Secret, ...], limit: int = 400) -> Markup:
    """A short text on one line: a name, a label, a message."""
    kept = mask(text[: limit + _MARGIN], secrets)
    return visible(kept if len(kept) <= limit else kept[: limit - 2] + " …")


def masked_ends(text: str, secrets: tuple[Secret, ...], limit: int) -> tuple[str, str]:
    """The two ends that may be shown, masked beyond where they are cut, so that no half of a secret stands at a cut."""
    if len(text) <= limit + 2 * _MARGIN:
        return mask(text, secrets), ""
    head, tail = limit * 3 // 4, limit // 4
    return mask(text[: head + _MARGIN], secrets)[:head], mask(text[-(tail + _MARGIN) :], secrets)[-tail:]


def cut(ends: tuple[str, str], length: int, limit: int, lines: int) -> Shown:
    """At most so many lines, most of them from the beginning."""
    head, tail = ends
    if not tail:
        rows = head.split("\n")
        if len(rows) <= lines:
            return Shown(visible(head))
        first, last = rows[: lines * 3 // 4], rows[-(lines // 4) :]
        gone = f"{len(rows) - len(first) - len(last):,} lines"
        return Shown(visible("\n".join(first)), gone, visible("\n".join(last)))
    first, last = head.split("\n")[: lines * 3 // 4], tail.split("\n")[-(lines // 4) :]
    head, tail = "\n".join(first), "\n".join(last)
    return Shown(visible(head), f"{length - len(head) - len(tail):,} characters", visible(tail))


def visible(text: str) -> Markup:
    """Every character is there to be seen, and none does anything."""
    parts: list[str] = []
    done = 0
    for found in _ODD.finditer(text):
        parts.append(str(escape(text[done : found.start()])))
        parts.append(_chip(found))
        done = found.end()
    parts.append(str(escape(text[done:])))
    return Markup("".join(parts))  # noqa: S704  every part is escaped above


def _chip(found: re.Match[str]) -> str:
    said = found[0]
    match found.lastgroup:
        case "token":
            return f'<b class="tok">{escape(said)}</b>'
        case "masked":
            return '<b class="msk">masked</b>'
        case "end":
            return "\n" if said == "\r\n" else '<b class="ctl" title="U+000D">CR</b>\n'
        case "esc":
            return f'<b class="ctl" title="an escape sequence, not obeyed">{escape(_spell(said))}</b>'
    return f'<b class="ctl" title="U+{ord(said):04X}">{_sign(ord(said))}</b>'


def _spell(text: str) -> str:
    """Control characters as their pictures; a long sequence is cut."""
    kept = text if len(text) <= 120 else text[:119] + "…"
    return "".join(
        _sign(ord(c)) if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or ord(c) > 0x200A else c for c in kept
    )


def _sign(code: int) -> str:
    if code < len(_NAMES):
        return _NAMES[code]
    return "DEL" if code == 0x7F else "…" if code == 0x2026 else f"U+{code:04X}"
