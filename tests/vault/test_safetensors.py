"""The reader of weight files: what it reads, and that each kind of damage has its own answer (F29)."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.rules.errors import Refusal
from palestra.vault.codes import HEADER_FAULT, WEIGHTS_LONG, WEIGHTS_SHORT
from palestra.vault.safetensors import (
    LARGEST_HEADER,
    SIZES,
    STORED,
    read_blocks,
    read_header,
    round_to,
    widen,
    write_safetensors,
)

TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


def file_of(header: object, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def code_of(data: bytes) -> str:
    with pytest.raises(Refusal) as caught:
        read_header(io.BytesIO(data), len(data), "model.safetensors")
    assert "model.safetensors" in caught.value.message
    return caught.value.code


@pytest.mark.parametrize("dtype", sorted(STORED))
def test_every_type_is_read_back_in_blocks(dtype: str, tmp_path: Path) -> None:
    values = np.arange(70).reshape(7, 10) % 2 if dtype == "BOOL" else np.arange(70).reshape(7, 10)
    write_safetensors(
        tmp_path / "a.safetensors", {"x": (dtype, values), "nothing": (dtype, np.zeros((0, 3)))}
    )
    with (tmp_path / "a.safetensors").open("rb") as file:
        header = read_header(file, (tmp_path / "a.safetensors").stat().st_size, "a")
        blocks = [widen(block, dtype) for block in read_blocks(file, header["x"], values=8)]
        assert [block.size for block in blocks] == [8] * 8 + [6]
        assert np.array_equal(np.concatenate(blocks), values.ravel())
        assert list(read_blocks(file, header["nothing"])) == []
    assert header["x"].shape == (7, 10)
    assert header["x"].size == 70 * SIZES[dtype]


def test_bfloat16_rounds_to_nearest_ties_to_even() -> None:
    ulp = 2.0**-7
    given_values = np.array([1.0, 1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp, -1 - ulp, 3.4e38, 0.0])
    wanted = np.array(
        [1.0, 1.0, 1 + 2 * ulp, 1 + ulp, -1 - ulp, round_to(np.array([3.4e38]), "BF16")[0], 0.0]
    )
    assert np.array_equal(round_to(given_values, "BF16"), wanted)
    assert np.array_equal(round_to(wanted, "BF16"), wanted)


def test_a_byte_too_few_or_too_many_has_its_own_code() -> None:
    """F29: cut one byte, add eight bytes."""
    whole = file_of({"x": TENSOR})
    assert list(read_header(io.BytesIO(whole), len(whole), "a")) == ["x"]
    assert code_of(whole[:-1]) == WEIGHTS_SHORT
    assert code_of(whole + bytes(8)) == WEIGHTS_LONG
    assert code_of(whole[:20]) == WEIGHTS_SHORT
    assert code_of(b"") == WEIGHTS_SHORT


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"{" + b'"a":{' * 100_000, "not JSON"),
        (b'{"x":\xff}', "not JSON"),
        ({"x": [1]}, "must have dtype, shape and data_offsets"),
        ({"x": {**TENSOR, "more": 1}}, "and nothing else"),
        ({"x": {**TENSOR, "dtype": "F4"}}, "dtype 'F4'"),
        ({"x": {**TENSOR, "dtype": ["F32"]}}, "dtype ['F32']"),
        ({"x": {**TENSOR, "shape": [2, 3]}}, "needs 24"),
        ({"x": {**TENSOR, "shape": [-2, -2]}}, "can't be read"),
        ({"x": {**TENSOR, "shape": [True, 4]}}, "can't be read"),
        ({"x": {**TENSOR, "shape": 4}}, "can't be read"),
        ({"x": {**TENSOR, "data_offsets": [16, 0]}}, "can't be read"),
        ({"x": {**TENSOR, "data_offsets": [0, 16, 32]}}, "can't be read"),
        ({"x": {**TENSOR, "data_offsets": [0, 1 << 70]}}, "can't be read"),
        ({"x": {**TENSOR, "data_offsets": [8, 24]}}, "gap"),
        ({"x": TENSOR, "y": {**TENSOR, "data_offsets": [8, 24]}}, "overlaps"),
        (b'{"x":%b,"x":%b}' % ((json.dumps(TENSOR).encode(),) * 2), "'x' stands in its header twice"),
        (
            b'{"x":{"dtype":"F32","dtype":"F16","shape":[2,2],"data_offsets":[0,16]}}',
            "'dtype' stands in its header twice",
        ),
    ],
)
def test_a_header_that_contradicts_itself_is_refused_with_what_is_wrong(header: Any, said: str) -> None:
    """F29: truncated, overlapping, double or nonsensical headers."""
    data = file_of(header)
    assert code_of(data) == HEADER_FAULT
    with pytest.raises(Refusal) as caught:
        read_header(io.BytesIO(data), len(data), "a")
    assert said in caught.value.message


def test_a_header_that_would_fill_the_memory_is_not_read() -> None:
    assert code_of((LARGEST_HEADER + 1).to_bytes(8, "little") + b"{}") == HEADER_FAULT


@given(st.data())
def test_whatever_bytes_come_only_refusals_leave_the_reader(data: st.DataObject) -> None:
    """F29: a flipped or lost byte anywhere is either harmless or a refusal, never another error."""
    whole = bytearray(file_of({"x": TENSOR, "__metadata__": {"format": "pt"}}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 17))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for damaged in (bytes(whole), cut):
        try:
            read_header(io.BytesIO(damaged), len(damaged), "a")
        except Refusal as refusal:
            assert refusal.code in (HEADER_FAULT, WEIGHTS_SHORT, WEIGHTS_LONG)
