"""What calls cost and what is held for them: F04, F07, S84 rest on the hold never being less than the charge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.prices import MILLION, Price, Usage, affordable_output, ceiling, cost
from palestra.rules.units import DOLLAR, NanoDollars

amounts = st.integers(0, 10**12).map(NanoDollars)
prices = st.builds(Price, input=amounts, output=amounts, cached_input=amounts, cache_write=amounts)
CARD = Price(
    input=NanoDollars(1_250_000_000),
    output=NanoDollars(10 * DOLLAR),
    cached_input=NanoDollars(125_000_000),
    cache_write=NanoDollars(1_250_000_000),
)


def test_f07_cached_tokens_are_charged_at_their_own_price() -> None:
    """15,872 of 16,111 input tokens from the cache."""
    usage = Usage(fresh_input=16_111 - 15_872, cached_input=15_872, output=100)
    assert cost(CARD, usage) == 239 * 1_250 + 15_872 * 125 + 100 * 10_000
    assert cost(CARD, Usage()) == 0


def test_a_part_of_a_nano_dollar_is_charged_as_a_whole_one_once_a_call() -> None:
    card = Price(
        input=NanoDollars(1), output=NanoDollars(1), cached_input=NanoDollars(1), cache_write=NanoDollars(1)
    )
    assert cost(card, Usage(fresh_input=1, output=1)) == 1
    assert cost(card, Usage(fresh_input=MILLION)) == 1
    assert cost(card, Usage(fresh_input=MILLION + 1)) == 2


@given(prices, st.integers(0, 10**7), st.integers(0, 10**7), st.data())
def test_f04_no_usage_within_its_bounds_costs_more_than_was_held(
    price: Price, bound: int, cap: int, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, bound))
    written = data.draw(st.integers(0, bound - cached))
    fresh = data.draw(st.integers(0, bound - cached - written))
    usage = Usage(
        fresh_input=fresh, cached_input=cached, cache_write=written, output=data.draw(st.integers(0, cap))
    )
    exact = (
        fresh * price.input
        + cached * price.cached_input
        + written * price.cache_write
        + usage.output * price.output
    )
    assert 0 <= cost(price, usage) * MILLION - exact < MILLION
    assert cost(price, usage) <= ceiling(price, bound, cap)


@given(prices, st.integers(0, 10**7), st.integers(0, 10**13))
def test_s84_the_affordable_output_is_the_most_that_still_fits(price: Price, bound: int, left: int) -> None:
    most = affordable_output(price, bound, left)
    if most:
        assert ceiling(price, bound, most) <= left
    if price.output and ceiling(price, bound, 0) <= left:
        assert ceiling(price, bound, most + 1) > left
