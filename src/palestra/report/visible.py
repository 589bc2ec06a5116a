"""Texts of agents made fit to be shown: any text in, one line out in which nothing is hidden and nothing acts on a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    """Control characters, line ends, direction marks and other unprintable ones as escapes such as `\\x1b`."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
