"""Turns messages into token ids and back, by the tokenizer and the turn format of a base model's sheet (`base.json`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palestra_kit.errors import KitError
from palestra_kit.rows import Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SHEET = "base.json"


class Encoded(NamedTuple):
    """`trained[i]` says whether the model is to learn to say `ids[i]`: the assistant's words and its end of turn, nothing else."""

    ids: list[int]
    trained: list[bool]


@dataclass(frozen=True, slots=True)
class Turn:
    """How a message is written: `start` (with {role}), the content, `end`, then `gap`, which belongs to nobody."""

    start: str
    end: str
    gap: str

    def template(self) -> str:
        """The same format as a Jinja chat template for other tools, with markers around what an assistant says."""
        before, after = (json.dumps(part) for part in self.start.split("{role}"))
        opening = f"{{{{ {before} + message['role'] + {after} }}}}"
        closing = f"{{{{ {json.dumps(self.end)} }}}}"
        gap = f"{{{{ {json.dumps(self.gap)} }}}}" if self.gap else ""
        return (
            "{%- for message in messages -%}"
            f"{opening}"
            "{%- if message['role'] == 'assistant' -%}"
            f"{{% generation %}}{{{{ message['content'] }}}}{closing}{{% endgeneration %}}"
            "{%- else -%}"
            f"{{{{ message['content'] }}}}{closing}"
            "{%- endif -%}"
            f"{gap}"
            "{%- endfor -%}"
            "{%- if add_generation_prompt -%}"
            f"{{{{ {before} + 'assistant' + {after} }}}}"
            "{%- endif -%}"
        )


class Chat:
    """A base model's way of speaking. The same code serves training and answering, so both see the same tokens."""

    def __init__(self, tokenizer: Tokenizer, sheet: dict[str, Any]) -> None:
        self.tokenizer = tokenizer
        self.turn = Turn(**sheet["turn"])
        self.stop_ids: frozenset[int] = frozenset(sheet["stop_ids"])
        self.context: int = sheet["context"]
        self.name: str = sheet["name"]
        self.pad_id: int = sheet["stop_ids"][0]

    @classmethod
    def load(cls, base: Path) -> Chat:
        from tokenizers import Tokenizer

        sheet_path, tokenizer_path = base / SHEET, base / "tokenizer.json"
        for path in (sheet_path, tokenizer_path):
            if not path.is_file():
                raise KitError(
                    f"{path} is missing; a base model is made by `python -m palestra_kit.models tiny|smollm2 --out DIR`"
                )
        return cls(
            Tokenizer.from_file(str(tokenizer_path)), json.loads(sheet_path.read_text(encoding="utf-8"))
        )

    def encode(self, messages: Sequence[Message], *, answer_next: bool) -> Encoded:
        """Ids of a conversation. With `answer_next`, the start of an assistant's turn follows, for the model to go on from."""
        ids: list[int] = []
        trained: list[bool] = []

        def add(part: list[int], learn: bool) -> None:
            ids.extend(part)
            trained.extend([learn] * len(part))

        for message in messages:
            learn = message.role == "assistant"
            add(self._marks(self.turn.start.format(role=message.role)), False)
            add(self._words(message.content) + self._marks(self.turn.end), learn)
            add(self._marks(self.turn.gap), False)
        if answer_next:
            add(self._marks(self.turn.start.format(role="assistant")), False)
        return Encoded(ids, trained)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def show(self, encoded: Encoded) -> str:
        """The row as text with special tokens, the trained parts in double brackets."""
        text, at = "", 0
        while at < len(encoded.ids):
            end = at
            while end < len(encoded.ids) and encoded.trained[end] == encoded.trained[at]:
                end += 1
            part = str(self.tokenizer.decode(encoded.ids[at:end], skip_special_tokens=False))
            text += f"[[{part}]]" if encoded.trained[at] else part
            at = end
        return text

    def _marks(self, text: str) -> list[int]:
        self.tokenizer.encode_special_tokens = False
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _words(self, text: str) -> list[int]:
        # A message that spells out a special token must not become one: it could end its own turn and open another.
        self.tokenizer.encode_special_tokens = True
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)
