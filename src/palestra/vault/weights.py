"""One model's tensors over all its files: a layout and a way to open files in, tensors by name out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from numpy.typing import NDArray

from palestra.rules.errors import Broken, Refusal
from palestra.vault.codes import HEADER_FAULT, NOT_LOADABLE, SHARDS_SWAPPED
from palestra.vault.configs import LARGEST, read_json
from palestra.vault.layout import Layout, full_layout
from palestra.vault.safetensors import Floats, Tensor, read_blocks, read_header, widen

Opener = Callable[[str], BinaryIO]
"""Opens a file of the folder for reading, by its name below the folder."""


class Weights:
    """A model's checked headers, its files held open. Close it, or use it in a `with`."""

    def __init__(self, layout: Layout, opener: Opener) -> None:
        self.layout = layout
        self.opener = opener
        self.tensors: dict[str, Tensor] = {}
        self.where: dict[str, str] = {}
        self._files: dict[str, BinaryIO] = {}
        self._open = ExitStack()
        try:
            for name in layout.weights:
                self._add(name)
            if layout.index:
                self._check_index(layout.index)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str) -> None:
        file = self._files[name] = self._open.enter_context(self.opener(name))
        for tensor in read_header(file, file.seek(0, 2), name).values():
            if tensor.name in self.tensors:
                other = self.where[tensor.name]
                raise Refusal(
                    HEADER_FAULT, f"tensor {tensor.name!r} is in {other} and in {name}", subject=name
                )
            self.tensors[tensor.name] = tensor
            self.where[tensor.name] = name

    def _check_index(self, index: str) -> None:
        """Every tensor is in the shard that the index names, and in no other (F29)."""
        listed = self.json(index).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(shard, str) for shard in listed.values()):
            raise Refusal(
                NOT_LOADABLE, f"{index}: weight_map must say which file holds which tensor", subject=index
            )
        for shard in sorted(set(listed.values()) - set(self._files)):
            raise Refusal(NOT_LOADABLE, f"{index} names {shard}, which is not in the folder", subject=index)
        moved = [name for name, shard in listed.items() if name in self.where and self.where[name] != shard]
        if moved:
            pairs = Counter((listed[name], self.where[name]) for name in moved)
            (wanted, found), count = pairs.most_common(1)[0]
            raise Refusal(
                SHARDS_SWAPPED,
                f"{len(moved)} tensors are in another shard than {index} says: {count} of {wanted} are in {found}",
                subject=wanted,
            )
        for name in sorted(set(listed) ^ set(self.where)):
            what = "is not listed" if name in self.where else "is in none of the files"
            raise Refusal(NOT_LOADABLE, f"{index}: tensor {name!r} {what}", subject=index)

    def json(self, name: str) -> dict[str, Any]:
        """A JSON file of the same folder."""
        with self.opener(name) as file:
            return read_json(file.read(LARGEST), name)

    def blocks(self, name: str) -> Iterator[NDArray[Any]]:
        """A tensor's values as stored, block by block."""
        return read_blocks(self._files[self.where[name]], self.tensors[name])

    def floats(self, name: str) -> Iterator[Floats]:
        """A tensor's values as float64, block by block."""
        dtype = self.tensors[name].dtype
        return (widen(block, dtype) for block in self.blocks(name))

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_base(folder: Path) -> Weights:
    """The base model's weights, from the organiser's own folder; what is wrong there is no entrant's fault."""
    try:
        return Weights(
            full_layout([path.name for path in folder.iterdir()]), lambda name: (folder / name).open("rb")
        )
    except Refusal as refusal:
        raise Broken(f"the base model in {folder}: {refusal.message}") from None
