"""How far weights moved from the base: two models' tensors in, streamed in float64, sums out."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from palestra.rules.errors import Refusal
from palestra.vault.codes import NOT_FINITE
from palestra.vault.safetensors import Floats, round_to, widen
from palestra.vault.weights import Weights

ZERO = 1e-24
"""A squared norm this small against its factors' is rounding, not a change."""
FARTHEST = 1e9
"""Shown for changes of tensors that are zero in the base: measured reals are finite."""


class Change(msgspec.Struct, frozen=True):
    """What became of one tensor: squared norms of the change, of the base and of the result, and their product."""

    delta: float
    base: float
    mine: float = 0.0
    dot: float = 0.0
    cast: bool = False
    """Equal to the base once that is rounded to the same type."""

    @property
    def zero(self) -> bool:
        return self.delta == 0.0

    @property
    def cosine(self) -> float | None:
        """Between base and result; None where one of them is zero."""
        return self.dot / math.sqrt(self.base * self.mine) if self.base and self.mine else None


def compare_tensor(mine: Weights, base: Weights, name: str, base_name: str) -> Change:
    """Bit-equal tensors are seen without converting a value; others are compared with the base rounded to their type."""
    dtype, base_dtype = mine.tensors[name].dtype, base.tensors[base_name].dtype
    if dtype == base_dtype and _equal(mine, base, name, base_name):
        return Change(0.0, 0.0)
    delta = base_sum = mine_sum = dot = 0.0
    equal = True
    for stored, base_stored in zip(mine.blocks(name), base.blocks(base_name), strict=True):
        values, wanted = widen(stored, dtype), widen(base_stored, base_dtype)
        if dtype != base_dtype:
            wanted = round_to(wanted, dtype)
        difference = values - wanted
        equal = equal and not difference.any()
        mine_sum += _square(values, name)
        delta += float(np.dot(difference, difference))
        base_sum += float(np.dot(wanted, wanted))
        dot += float(np.dot(values, wanted))
    return Change(0.0 if equal else max(delta, math.ulp(0.0)), base_sum, mine_sum, dot, cast=equal)


def _equal(mine: Weights, base: Weights, name: str, base_name: str) -> bool:
    pairs = zip(mine.blocks(name), base.blocks(base_name), strict=True)
    return all(stored.tobytes() == wanted.tobytes() for stored, wanted in pairs)


def _square(values: Floats, name: str) -> float:
    """The squared norm; it alone shows a value that is not finite, so that these are not looked for twice."""
    total = float(np.dot(values, values))
    if not math.isfinite(total) and not np.isfinite(values).all():
        bad = int(values.size - np.isfinite(values).sum())
        raise Refusal(
            NOT_FINITE, f"tensor {name!r} holds values that are infinite or not a number (first block: {bad})"
        )
    return total


def compare_pair(mine: Weights, a_name: str, b_name: str, scale: float, base: float) -> Change:
    """An adapter's delta on one module: |s B A|^2 = s^2 sum(B'B * AA'), which needs no matrix of the module's size."""
    a, b = _matrix(mine, a_name), _matrix(mine, b_name)
    factors = _square(a.ravel(), a_name) * _square(b.ravel(), b_name)
    delta = scale * scale * float(np.sum((b.T @ b) * (a @ a.T)))
    return Change(delta if delta > ZERO * scale * scale * factors else 0.0, base)


def _matrix(mine: Weights, name: str) -> Floats:
    return np.concatenate([*mine.floats(name), np.zeros(0)]).reshape(mine.tensors[name].shape)


def squared_norm(weights: Weights, name: str) -> float:
    """Of one tensor of the base."""
    return sum(float(np.dot(block, block)) for block in weights.floats(name))


def relative(changes: list[Change]) -> float:
    """Norm of the change over the norm of the base's changed tensors; 0 where nothing changed."""
    changed = [change for change in changes if not change.zero]
    base = math.fsum(change.base for change in changed)
    delta = math.fsum(change.delta for change in changed)
    if not delta:
        return 0.0
    return min(math.sqrt(delta / base) if base else math.inf, FARTHEST)
