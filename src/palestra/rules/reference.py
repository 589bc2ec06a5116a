"""The reference page of `competition.toml`, written off the table of keys."""

from __future__ import annotations

from palestra.rules.keys import TABLES, Key, Table

_HEAD = """\
# competition.toml

Every key of a competition's rules. This page is written off the table that reads the file.
`palestra check` names every fault at once, with its line and what would be right.

- Durations carry a unit: `90m`, `2h30m`, `1.5h`, `PT2H`. `2:00` and `120` are refused.
- Sizes carry a unit: `64GiB` is binary, `64GB` is decimal. They differ.
- Dollars are text with the sign: `"$300"`, `"$0.25"`.
- An instant is written without quotes and with its offset from UTC: `2026-12-01T17:00:00+02:00`.
- Relative paths start at the file's folder and stay inside it.
- Keys of model APIs never stand in the file.
"""


def reference() -> str:
    """The page, in Markdown."""
    return "\n".join([_HEAD, *(_section(table) for table in TABLES)])


def _section(table: Table) -> str:
    title = f"`{table.title}`" if table.name else "Top of the file"
    often = f" From {table.least} to {table.most:,} of them." if table.many else ""
    rows = "\n".join(_row(key) for key in table.keys)
    return f"## {title}\n\n{table.meaning}{often}\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}\n"


def _row(key: Key) -> str:
    default = key.default.replace("|", "\\|") or "must be written"
    return f"| `{key.name}` | {key.kind.label} | {default} | {key.meaning} |"
