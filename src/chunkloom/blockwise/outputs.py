"""The arrays of a run, `<output_path>/<name>/s0`, each in an OME group, written in the engine's formats."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chunkloom.blockwise.plan import Plan
from chunkloom.engine.formats.base import served_format
from chunkloom.engine.volume import Array, Level
from chunkloom.engine.writing.documents import Described
from chunkloom.engine.writing.target import Folder
from chunkloom.errors import ConflictError, ParameterError


@dataclass(frozen=True)
class Output:
    """One array: its name, the channels it takes (a number, several, None for a result without channels), its level."""

    name: str
    channels: int | tuple[int, ...] | None
    level: Level


def outputs_of(result: Level, plan: Plan, chosen: Any, names: Sequence[str], model: str) -> tuple[Output, ...]:
    """The arrays for a pipeline's result.

    Without a choice, one for each named channel, or one named like the model.

    Raises
    ------
    ParameterError
        A channel that the result does not have.
    """
    count = result.channels[0] if result.channels else 1
    known = list(names) if len(names) == count else []
    if chosen is None:
        pairs: list[tuple[str, Any]] = list(zip(known, range(count), strict=True)) if known else [(model, None)]
        if not known and count > 1:
            pairs = [(model, tuple(range(count)))]
    elif isinstance(chosen[0], tuple):
        pairs = list(chosen)
    else:
        for name in chosen:
            if name not in known:
                has = f"has the channels {', '.join(known)}" if known else "names no channels: give numbers as well"
                raise ParameterError(f"output_channels: there is no channel {name!r}: the result {has}")
        pairs = [(name, known.index(name)) for name in chosen]
    made = []
    for name, channels in pairs:
        for one in channels if isinstance(channels, tuple) else () if channels is None else (channels,):
            if one >= count:
                raise ParameterError(f"output_channels: {name!r} is channel {one}: the result has {count}, from 0")
        if not name or name in (".", "..") or "/" in name or name.startswith("."):
            raise ParameterError(f"output_channels: {name!r} cannot be the name of an array")
        several = (len(channels),) if isinstance(channels, tuple) else ()
        level = dataclasses.replace(
            result,
            shape=(*several, *plan.shape),
            chunk_shape=(*several, *plan.block),
            axes=("c", "z", "y", "x")[-3 - len(several) :],
            grid=result.grid.moved(plan.offset),
        )
        made.append(Output(name, channels, level))
    return tuple(made)


class Store:
    """The folder of one output."""

    def __init__(self, folder: Path, output: Output, format_word: str, kind: Any) -> None:
        self.output = output
        self.folder = folder / output.name
        self._format = served_format(format_word)
        self._words = "s0/c/" if format_word == "zarr3" else "s0/"
        described = Described((output.level,), kind)
        self.documents = self._format.metadata(described, output.name)

    def check(self) -> bool:
        """Whether the output is there already, and as it should be.

        Raises
        ------
        ConflictError
            It is there and describes another array.
        """
        found = Folder(str(self.folder))
        there = {key: found.read(key) for key in self.documents}
        if all(data is None for data in there.values()):
            return False
        for key, data in self.documents.items():
            kept = there[key]
            if kept is None or json.loads(kept) != json.loads(data):
                raise ConflictError(
                    f"{self.folder}: {key} describes another array (another grid, type or shape): use a new output_path"
                )
        return True

    def tidy(self) -> None:
        """Remove chunks that a killed worker left half written."""
        for left in self.folder.glob(".writing-*"):
            left.unlink(missing_ok=True)

    def create(self) -> None:
        """Write the metadata, the root's last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = Folder(str(self.folder))
        for key, data in reversed(self.documents.items()):
            place.write(key, data)

    def write(self, index: Sequence[int], block: Array) -> None:
        """Write the chunk of a block, whole or not at all, and durably."""
        channels = self.output.channels
        if block.ndim == 4:
            block = block[channels if isinstance(channels, int) else list(channels) if channels else 0]
        data = self._format.encode(np.ascontiguousarray(block), self.output.level)
        leading = ["0"] * len(self.output.level.channels)
        key = self._words + "/".join([*leading, *map(str, index)])
        # Written under a name of its own process and block: a worker that was given up may still be writing.
        temporary = self.folder / f".writing-{os.getpid()}-{'-'.join(map(str, index))}"
        with open(temporary, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Folder(str(self.folder)).move_in(str(temporary), key)
