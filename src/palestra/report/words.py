"""How figures are said: numbers, spans, shares, times and names in, plain words out. Nothing here is markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from palestra.events.public import Unit, count, show_time
from palestra.report.facts import Facts, NominationFacts
from palestra.report.visible import visible
from palestra.rules.units import DAY, HOUR, MINUTE, SECOND, rounded, show_duration

_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()
_KINDS = {"lora": "a LoRA adapter", "full": "a full model"}
_RESOURCES = {
    "gpus": "{unit}s",
    "memory": "memory",
    "running_cap": "its own running cap",
    "gpu_time": "its own {unit}-time",
    "paused": "the end of a pause",
}
CUT = 120
"""Characters of an entrant's own words that a report shows in one place."""


def number(many: int) -> str:
    """Small numbers as words."""
    return _NUMBERS[many] if 0 <= many < len(_NUMBERS) else f"{many:,}"


def plural(many: int, noun: str, nouns: str = "") -> str:
    """`two jobs`; `nouns` where an s at the end won't do."""
    return f"{number(many)} {noun if many == 1 else nouns or noun + 's'}"


def units(many: int, unit: Unit) -> str:
    """`2 slots`."""
    return count(many, unit)


def span(length: int) -> str:
    """A duration with at most two parts: `4 h 18 min`, `57 s`, `0.4 s`."""
    for least, part in ((DAY, HOUR), (HOUR, MINUTE), (10 * SECOND, SECOND)):
        if length >= least:
            return show_duration(length // part * part)
    return show_duration(length)


def percent(part: int, whole: int, places: int = 1) -> str:
    """`30.3 %`; what is more than nothing doesn't print as nothing; of nothing it is `-`."""
    if whole == 0:
        return "-"
    while part and 0 < abs(2 * part) * 10 ** (places + 2) <= abs(whole) and places < 6:
        places += 1
    return f"{rounded(100 * part, whole, places)}\u00a0%"


def times(many: int) -> str:
    """`once`, `twice`, `three times`."""
    return {1: "once", 2: "twice"}.get(many, f"{number(many)} times")


def show_gpu_time(facts: Facts, amount: int) -> str:
    """`1.50 slot-h`; in seconds where no allowance comes to an hour, so that small ones stay apart."""
    most = max((seat.gpu.limit for seat in facts.corners if seat.gpu), default=HOUR)
    return show_time(amount, facts.unit) if most >= HOUR else f"{rounded(amount, SECOND, 1)} {facts.unit}-s"


def amount_below(amount: int, limit: int, say: Callable[..., str]) -> str:
    """With decimals enough not to look like the whole limit: `$9.998` of $10.00."""
    places = 2
    while amount != limit and say(amount, places) == say(limit, places) and places < 9:
        places += 1
    return say(amount, places)


def listed(words: Iterable[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def kind(one: NominationFacts) -> str:
    """What the vault found it to be."""
    return _KINDS.get(one.kind or "", "a model")


def resource(name: str, unit: Unit) -> str:
    """What a job waits for."""
    return _RESOURCES.get(name, name or "its turn").format(unit=unit)


def words(code: str) -> str:
    """A code as words: `out of memory`."""
    return code.replace("_", " ")


def own(text: str, limit: int = CUT) -> str:
    """An entrant's own words on one line, nothing hidden, cut where they are long."""
    shown = visible(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 2]} …"


def named(facts: Facts, corners: Sequence[str]) -> str:
    """Names as shown, in the order given."""
    return listed(own(facts.corner(one).name, 60) for one in corners)


def capital(text: str) -> str:
    """With a capital letter first."""
    return text[:1].upper() + text[1:]
