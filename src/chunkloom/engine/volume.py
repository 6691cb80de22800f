"""`Volume`: a pyramid of chunked levels with a place in the world.

A stored dataset is a volume, an array is, and so is a computation over one (`chunkloom.engine.pipeline`). Whatever
reads a volume asks `levels` what there is and `read` (or `read_box`) for voxels, and need not know which it got.
This module knows no file formats, no servers and no models.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, Grid
from chunkloom.memory import free_memory

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.io.source import StoredArray
    from chunkloom.kernels.seams import Seams

Array = np.ndarray[Any, np.dtype[Any]]
Kind = Literal["image", "labels", "mask"]
SPATIAL = ("z", "y", "x")


@dataclass(frozen=True, slots=True)
class Level:
    """One array of a pyramid.

    `shape`, `chunk_shape` and `axes` run over channel axes first and whole, then z, y, x. `grid` is of z, y, x only.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_shape: tuple[int, ...]
    axes: tuple[str, ...]
    grid: Grid

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype).newbyteorder("="))
        if not len(self.shape) == len(self.chunk_shape) == len(self.axes):
            raise ValueError(f"shape {self.shape}, chunk {self.chunk_shape}, axes {self.axes} differ in length")
        if self.axes[-3:] != SPATIAL:
            raise ValueError(f"axes must end in z, y, x, found {self.axes}")
        if self.chunk_shape[:-3] != self.shape[:-3]:
            raise ValueError(f"channel axes are kept whole: shape {self.shape}, chunk {self.chunk_shape}")

    @property
    def channels(self) -> tuple[int, ...]:
        """Lengths of the channel axes: () for a plain z, y, x array."""
        return self.shape[:-3]

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        return self.shape[-3:]

    @property
    def spatial_chunk(self) -> tuple[int, ...]:
        return self.chunk_shape[-3:]

    @property
    def voxel_size_nm(self) -> tuple[float, ...]:
        """Of z, y, x, in nm."""
        return self.grid.voxel_size_nm

    @property
    def box(self) -> Box:
        """The whole level, in voxels z, y, x."""
        return Box.of_shape(self.spatial_shape)

    @property
    def chunk_grid(self) -> tuple[int, ...]:
        """How many chunks there are along z, y, x."""
        return tuple(-(-n // c) for n, c in zip(self.spatial_shape, self.spatial_chunk, strict=True))

    @property
    def chunk_nbytes(self) -> int:
        count = self.dtype.itemsize
        for n in self.chunk_shape:
            count *= n
        return count

    def describe(self) -> dict[str, Any]:
        """Everything a client can see of the level, as JSON data: part of the volume's digest."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "chunk_shape": list(self.chunk_shape),
            "axes": list(self.axes),
            "voxel_size_nm": list(self.grid.voxel_size_nm),
            "corner_nm": list(self.grid.corner_nm),
        }


def make_digest(data: object) -> str:
    """16 hex digits that stand for `data` (JSON data; the order of members does not count)."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Volume(ABC):
    """A pyramid of chunked levels with a place in the world.

    Attributes
    ----------
    levels
        Finest first.
    kind
        "image", "labels" (ids, never averaged) or "mask".
    warnings
        What a person should know about how it was read, a sentence each.
    seams
        Where an object has an id per chunk: which ids are one object, as found so far. None where ids stand as they
        are. `chunkloom.engine.finalize` makes a volume with one id per object of it.
    """

    levels: tuple[Level, ...]
    kind: Kind = "image"
    warnings: tuple[str, ...] = ()
    seams: Seams | None = None

    @property
    @abstractmethod
    def stage_digest(self) -> str:
        """Stands for everything that can change the voxels: what it is made of, in which state, with what."""

    @abstractmethod
    def read_box(self, level: int, box: Box, work: Work) -> Array:
        """The voxels of `box` (z, y, x, inside the level), channel axes whole and first.

        The array may be read-only, and may be shared with a cache. `work.check()` is called between steps.
        """

    @property
    def parts(self) -> tuple[Volume, ...]:
        """The volumes it reads from: none for data itself."""
        return ()

    @property
    def changes(self) -> bool:
        """Whether `state` can tell that something was written anew: where files of this machine are behind it."""
        return any(part.changes for part in self.parts)

    def state(self, level: int, box: Box) -> str:
        """Stands for the state that what is stored of `box` is in: another text once it was written anew.

        "" where nothing is stored, and where that cannot be told (remote places). Looks at files, a moment ago or now,
        and opens none.
        """
        return ""

    @property
    def own_levels(self) -> int:
        """How many levels there are without computing coarse ones from all of the fine voxels."""
        return len(self.levels)

    def cost(self, level: int) -> int:
        """How many dear computations (model tiles) a chunk of `level` takes: what is cheap (0) is served first."""
        return 0

    def stored(self, level: int) -> StoredArray | None:
        """The stored array that `level` is, voxel for voxel, where it is one: its bytes may be passed on untouched."""
        return None

    @property
    def digest(self) -> str:
        """Stands for everything a client can see: the voxels and the metadata. The `@digest` of URLs."""
        return make_digest([self.stage_digest, self.kind, [level.describe() for level in self.levels]])

    def read(self, box: Box | Sequence[Sequence[int]] | None = None, level: int = 0) -> Array:
        """The voxels of a box, as a new array.

        Parameters
        ----------
        box
            Voxels of `level`, z, y, x, half-open: a `Box`, or ``((z0, z1), (y0, y1), (x0, x1))``; the whole level
            when left out. It must lie inside the level.
        level
            0 is the finest.

        Returns
        -------
        numpy.ndarray
            Channel axes whole and first, then z, y, x. C order, native byte order, writable.

        Raises
        ------
        ParameterError
            No such level; box outside the level; more voxels than fit in free memory.
        """
        from chunkloom.engine.demand import UNCLAIMED

        described = self.level(level)
        wanted = described.box if box is None else as_box(box)
        if wanted.ndim != 3:
            raise ParameterError(f"box {wanted} has {wanted.ndim} axes: expected 3 (z, y, x); channels are read whole")
        if wanted.is_empty or not described.box.contains(wanted):
            raise ParameterError(
                f"box {wanted} is not inside level {level}: expected z, y, x within {described.box} and not empty"
            )
        _refuse_what_does_not_fit(described, wanted)
        return np.array(self.read_box(level, wanted, UNCLAIMED), order="C")

    def level(self, index: int) -> Level:
        """Level `index`, or a `ParameterError` that says which there are."""
        if not 0 <= index < len(self.levels):
            raise ParameterError(f"no level {index}: this volume has levels 0 to {len(self.levels) - 1}")
        return self.levels[index]


def joined_states(states: Sequence[str]) -> str:
    """One text for the states of several volumes."""
    told = [state for state in states if state]
    return make_digest(list(states)) if len(told) > 1 else "".join(told)


def behind(volume: Volume) -> Iterator[Volume]:
    """`volume` and all that it is made of, each once, from the result down to the data."""
    waiting, met = [volume], {id(volume)}
    while waiting:
        here = waiting.pop(0)
        yield here
        new = [part for part in here.parts if id(part) not in met]
        met.update(map(id, new))
        waiting = new + waiting


def as_box(box: Box | Sequence[Sequence[int]]) -> Box:
    """`box`, or the `Box` of pairs (begin, end)."""
    if isinstance(box, Box):
        return box
    pairs = [tuple(pair) for pair in box]
    if any(len(pair) != 2 for pair in pairs):
        raise ParameterError(f"box {box} is not pairs of begin and end: expected ((z0, z1), (y0, y1), (x0, x1))")
    return Box(tuple(int(p[0]) for p in pairs), tuple(int(p[1]) for p in pairs))


def _refuse_what_does_not_fit(level: Level, box: Box) -> None:
    count = box.size
    for n in level.channels:
        count *= n
    needed, free = count * level.dtype.itemsize, free_memory()
    if free is not None and needed > free:
        raise ParameterError(
            f"box {box} needs {needed / 2**30:.1f} GiB, free memory is {free / 2**30:.1f} GiB: read a smaller box, "
            f"read(((z0, z1), (y0, y1), (x0, x1))), or a coarser level"
        )
