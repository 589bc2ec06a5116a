"""Reads safetensors files without trusting them: a file in, its checked header and blocks of values out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from palestra.rules.errors import Refusal
from palestra.vault.codes import HEADER_FAULT, NOT_LOADABLE, WEIGHTS_LONG, WEIGHTS_SHORT

LARGEST_HEADER = 32 << 20
"""Bytes. Real headers are far smaller: about 100 bytes a tensor."""
BLOCK = 1 << 18
"""Values read at a time, so that a tensor of any size needs little memory."""
SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
"""Bytes a value takes, by the format's names of types."""
STORED = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "BF16": "<u2",
    "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip
FLOATS = ("BF16", "F16", "F32", "F64")

Floats = NDArray[np.float64]


class Tensor(msgspec.Struct, frozen=True):
    """Where a tensor's values lie: `start` is counted from the start of the file, `size` is in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int

    @property
    def values(self) -> int:
        return math.prod(self.shape)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written, before later keys hide earlier ones."""


def read_header(file: BinaryIO, size: int, name: str) -> dict[str, Tensor]:
    """The file's tensors by name, in the order they lie. Its offsets must cover `size` bytes exactly (F29)."""
    file.seek(0)
    length = int.from_bytes(_take(file, 8, name), "little")
    if length > LARGEST_HEADER:
        raise _fault(name, f"its header would be {length:,} bytes; at most {LARGEST_HEADER:,} are read")
    listed = _parse(_take(file, length, name), name)
    tensors = [_read_tensor(key, value, 8 + length, name) for key, value in listed if key != "__metadata__"]
    tensors.sort(key=lambda tensor: (tensor.start, tensor.size))
    end = 8 + length
    for tensor in tensors:
        if tensor.start != end:
            what = "overlaps the tensor before it" if tensor.start < end else "leaves a gap before it"
            raise _fault(name, f"tensor {tensor.name!r} {what}")
        end += tensor.size
    if size < end:
        raise Refusal(
            WEIGHTS_SHORT, f"{name} is {size:,} bytes, {end - size:,} less than its header says", subject=name
        )
    if size > end:
        raise Refusal(WEIGHTS_LONG, f"{name} has {size - end:,} bytes after its last tensor", subject=name)
    return {tensor.name: tensor for tensor in tensors}


def _take(file: BinaryIO, length: int, name: str) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise Refusal(WEIGHTS_SHORT, f"{name} ends inside its header", subject=name)
    return data


def _parse(data: bytes, name: str) -> list[tuple[str, Any]]:
    """The header's entries; a list, so that a name written twice is seen."""
    if not data.startswith(b"{"):
        raise _fault(name, "its header is not a JSON object")
    try:
        whole = json.loads(data.decode(), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise _fault(name, f"its header is not JSON: {str(error)[:200]}") from None
    return [
        (key, _once(value, name) if isinstance(value, _Pairs) else value)
        for key, value in _once(whole, name).items()
    ]


def _once(pairs: _Pairs, name: str) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise _fault(name, f"{twice!r} stands in its header twice")
    return fields


def _read_tensor(key: str, value: Any, data_start: int, name: str) -> Tensor:
    where = f"tensor {key!r}"
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _fault(name, f"{where} must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise _fault(name, f"{where} has dtype {dtype!r}; known are {', '.join(sorted(SIZES))}")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _fault(name, f"{where} has shape {shape!r} and data_offsets {offsets!r}, which can't be read")
    size = offsets[1] - offsets[0]
    wanted = SIZES[dtype] * math.prod(shape)
    if size != wanted:
        raise _fault(name, f"{where} takes {size:,} bytes, but {dtype} {shape} needs {wanted:,}")
    return Tensor(key, dtype, tuple(shape), data_start + offsets[0], size)


def _counts(value: Any) -> bool:
    """Whether this is a list of whole numbers that a file can hold."""
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(type(one) is int and 0 <= one < 1 << 48 for one in value)
    )


def _fault(name: str, what: str) -> Refusal:
    return Refusal(HEADER_FAULT, f"{name}: {what}", subject=name)


def read_blocks(file: BinaryIO, tensor: Tensor, values: int = BLOCK) -> Iterator[NDArray[Any]]:
    """The tensor's values as they are stored, block by block (BF16 as its 16 bits)."""
    if tensor.dtype not in STORED:
        raise Refusal(
            NOT_LOADABLE, f"tensor {tensor.name!r}: values of type {tensor.dtype} are not read here"
        )
    at, end = tensor.start, tensor.start + tensor.size
    while at < end:
        wanted = min(end - at, values * SIZES[tensor.dtype])
        file.seek(at)  # each time: two tensors of a file may be read side by side
        data = file.read(wanted)
        if len(data) < wanted:
            raise Refusal(WEIGHTS_SHORT, f"the file ends inside tensor {tensor.name!r}")
        at += wanted
        yield np.frombuffer(data, STORED[tensor.dtype])


def widen(stored: NDArray[Any], dtype: str) -> Floats:
    """Stored values as float64."""
    if dtype == "BF16":  # the upper half of a float32
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


def round_to(values: Floats, dtype: str) -> Floats:
    """The values as `dtype` would hold them, rounded to nearest, ties to even."""
    with np.errstate(over="ignore"):
        if dtype == "BF16":
            bits = values.astype(np.float32).view(np.uint32)
            return widen(((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype(np.uint16), "BF16")
        return values.astype(STORED[dtype]).astype(np.float64)


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, NDArray[Any]]]) -> None:
    """Write a file from (dtype, values) by name; BF16 takes floats and rounds them."""
    entries: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, (dtype, values) in tensors.items():
        if dtype == "BF16":
            bits = round_to(values.astype(np.float64), "BF16").astype(np.float32).view(np.uint32) >> 16
            data = bits.astype("<u2").tobytes()
        else:
            data = values.astype(STORED[dtype]).tobytes()
        entries[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(parts))
