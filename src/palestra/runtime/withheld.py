"""What a run may never show, read from its folder: tokens, the exam's seed, its place on disk, true names behind aliases."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from palestra.events.masking import Secret
from palestra.rules.competition import Competition
from palestra.rules.read import read_competition
from palestra.runtime.folder import RunFolder
from palestra.runtime.opening import NAMED, SEED
from palestra.runtime.seats import NAMES, TOKENS, read_tokens


def withheld(folder: RunFolder, rules: Competition) -> tuple[Secret, ...]:
    """Everything at once; what is there but can't be read fails, for it would be shown. A copy without secrets has none."""
    found = [Secret(str(folder.path), "[run]")]
    if (folder.secrets / TOKENS).exists():
        found += [Secret(token) for token in read_tokens(folder).values()]
    if (folder.secrets / SEED).exists():
        found.append(Secret(folder.read_secret(SEED).decode().strip()))
    if (folder.secrets / NAMED).exists():
        written = folder.read_secret(NAMED).decode()
        found += sealed_words(read_competition(written, zones=frozenset({rules.zone})))
    if (folder.secrets / NAMES).exists():
        late = msgspec.json.decode(folder.read_secret(NAMES), type=dict[str, list[str]])
        found += [Secret(word, alias, name=True) for alias, words in late.items() for word in words if word]
    return tuple(found)


def sealed_words(rules: Competition) -> Iterable[Secret]:
    """True names, labs and models of entrants under an alias, as far as no other entrant stands for them openly."""
    upstream = {model.name: model.upstream_model for model in rules.models}
    said = {
        word for one in rules.entrants if not one.alias
        for word in (one.name, one.lab, one.model, upstream.get(one.model, ""))
    }  # fmt: skip
    for one in rules.entrants:
        for word in (one.name, one.lab, one.model, upstream.get(one.model, "")):
            if one.alias and word and word not in said:
                yield Secret(word, one.alias, name=True)
