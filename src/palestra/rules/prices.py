"""What a model call costs: a frozen price card and token counts in, nano-dollars out; holds use the same function."""

from __future__ import annotations

import msgspec

from palestra.rules.units import NanoDollars

MILLION = 1_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of one answered call, disjoint: cached and cache-written tokens are not in `fresh_input`."""

    fresh_input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-dollars per million tokens of one model, by kind of token."""

    input: NanoDollars
    output: NanoDollars
    cached_input: NanoDollars
    cache_write: NanoDollars


def cost(price: Price, usage: Usage) -> NanoDollars:
    """ceil(sum(tokens x price) / 1e6): exact integers, rounded up once a call."""
    total = (
        usage.fresh_input * price.input
        + usage.cached_input * price.cached_input
        + usage.cache_write * price.cache_write
        + usage.output * price.output
    )
    return NanoDollars(-(-total // MILLION))


def ceiling(price: Price, input_bound: int, output_cap: int) -> NanoDollars:
    """The dearest a call can be: every input token at the dearest input price, the whole output cap written."""
    dearest = max(price.input, price.cached_input, price.cache_write)
    return NanoDollars(-(-(input_bound * dearest + output_cap * price.output) // MILLION))


def affordable_output(price: Price, input_bound: int, left: int) -> int:
    """The largest output cap whose ceiling is within `left` nano-dollars; 0 when not even the input fits."""
    dearest = max(price.input, price.cached_input, price.cache_write)
    room = left * MILLION - input_bound * dearest
    if room <= 0:
        return 0
    return room // price.output if price.output else 1 << 31
