"""Task families that code can check: `make` draws a question with its answer, `check` reads a given answer, `solve` works one out."""

from __future__ import annotations

from random import Random

from palestra_kit.errors import KitError
from palestra_kit.tasks import pocket, tiny
from palestra_kit.tasks.checks import Check, check
from palestra_kit.tasks.families import Family, Item

TIERS: dict[str, tuple[Family, ...]] = {"tiny": tiny.FAMILIES, "pocket": pocket.FAMILIES}


def families(tier: str) -> tuple[Family, ...]:
    if tier not in TIERS:
        raise KitError(f"tier {tier!r} does not exist; there are: {', '.join(TIERS)}")
    return TIERS[tier]


def family(tier: str, name: str) -> Family:
    for one in families(tier):
        if one.name == name:
            return one
    raise KitError(
        f"family {name!r} is not in tier {tier!r}; it has: {', '.join(one.name for one in TIERS[tier])}"
    )


def make(one: Family, rng: Random) -> Item:
    """A new question of a family, with its right answer."""
    return one.make(rng)


def solve(name: str, prompt: str) -> str | None:
    """The right answer to a prompt of the family `name`; None when there is no such family or no known wording fits."""
    # Names differ between the tiers (a test holds that), so the first family found is the one.
    for one in (one for tier in TIERS.values() for one in tier if one.name == name):
        return one.solve(prompt)
    return None


__all__ = ["TIERS", "Check", "Family", "Item", "check", "families", "family", "make", "solve"]
