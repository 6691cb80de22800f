"""Chunks of a network: fixed boxes of space with integer ids, and their one order.

Axes are x, y, z here, as in the files themselves (everything else in chunkloom is z, y, x). This module knows no file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from chunkloom.network.errors import ParameterError

Size = tuple[float, float, float]
IDS = 1 << 48
"""Chunk ids are 0 … IDS - 1: three coordinates of 16 bits, x lowest, each in two's complement."""


@functools.total_ordering
class Chunk:
    """One chunk: three integer coordinates and, if known, the size of every chunk of its file.

    Two chunks are equal when their coordinates are; they are ordered by id, so 0 … 32767 come before -32768 … -1 on
    each axis, and z counts before y before x.

    Parameters
    ----------
    coordinates : sequence of 3 int
        x, y, z in chunks, each -32768 … 32767.
    size : sequence of 3 float, optional
        Extent in x, y, z, in the file's unit (µm in BSB networks).

    Raises
    ------
    ParameterError
        A coordinate is not a whole number or does not fit in 16 bits.
    """

    __slots__ = ("coordinates", "id", "size")

    coordinates: tuple[int, int, int]
    id: int
    size: Size | None

    def __init__(self, coordinates: Iterable[float], size: Iterable[float] | None = None) -> None:
        given = tuple(coordinates)
        whole = tuple(int(c) for c in given)
        if len(whole) != 3 or any(w != g for w, g in zip(whole, given, strict=True)):
            raise ParameterError(f"chunk {given}: a chunk is three whole numbers, x, y and z")
        x, y, z = whole
        if not all(-32768 <= c <= 32767 for c in whole):
            raise ParameterError(f"chunk {whole}: each coordinate must be -32768 to 32767; use larger chunks")
        object.__setattr__(self, "coordinates", (x, y, z))
        object.__setattr__(self, "id", (x & 0xFFFF) | (y & 0xFFFF) << 16 | (z & 0xFFFF) << 32)
        object.__setattr__(self, "size", parse_size(size))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Chunk cannot be changed")

    def __reduce__(self) -> tuple[type[Chunk], tuple[tuple[int, int, int], Size | None]]:
        return Chunk, (self.coordinates, self.size)

    @classmethod
    def from_id(cls, id: int, size: Iterable[float] | None = None) -> Chunk:
        """The chunk of an id, 0 … 2**48 - 1; any other id is refused."""
        if not 0 <= id < IDS:
            raise ParameterError(f"chunk id {id}: ids are 0 to {IDS - 1}")
        return cls((_signed(id), _signed(id >> 16), _signed(id >> 32)), size)

    @classmethod
    def containing(cls, position: Sequence[float], size: Sequence[float]) -> Chunk:
        """The chunk a position (x, y, z; the unit of `size`) lies in: floor(position / size)."""
        return cls(np.floor(np.asarray(position, float) / np.asarray(size, float)), size)

    @property
    def ldc(self) -> npt.NDArray[np.float64]:
        """Least corner (x, y, z); NaN when the size is not known."""
        return np.asarray(self.coordinates) * self.dimensions

    @property
    def mdc(self) -> npt.NDArray[np.float64]:
        """Most corner (x, y, z), exclusive; NaN when the size is not known."""
        return (np.asarray(self.coordinates) + 1) * self.dimensions

    @property
    def box(self) -> npt.NDArray[np.float64]:
        """`ldc` and `mdc`, six numbers."""
        return np.concatenate((self.ldc, self.mdc))

    @property
    def dimensions(self) -> npt.NDArray[np.float64]:
        """The size as an array; NaN when not known."""
        return np.full(3, np.nan) if self.size is None else np.asarray(self.size)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Chunk) else NotImplemented

    def __lt__(self, other: Chunk) -> bool:
        return self.id < other.id if isinstance(other, Chunk) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __iter__(self) -> Iterator[int]:
        return iter(self.coordinates)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, axis: int) -> int:
        return self.coordinates[axis]

    def __repr__(self) -> str:
        return f"Chunk({self.coordinates}, size={self.size})"


Chunklike = Chunk | int | str | Iterable[float]


def parse_size(size: Iterable[float] | None) -> Size | None:
    """A chunk size as three positive numbers; None for None and for NaN (unknown).

    Raises
    ------
    ParameterError
        Not three positive numbers, or only partly NaN.
    """
    if size is None:
        return None
    given = np.asarray(size if isinstance(size, np.ndarray | np.generic | float) else tuple(size), dtype=float).ravel()
    if given.size and np.isnan(given).all():
        return None
    if given.shape != (3,) or not (np.isfinite(given).all() and (given > 0).all()):
        raise ParameterError(f"chunk size {given.tolist()}: expected three positive numbers, x, y and z")
    return float(given[0]), float(given[1]), float(given[2])


def same_size(a: Size, b: Size) -> bool:
    """Whether two chunk sizes agree to one part in a million."""
    return all(abs(p - q) <= 1e-6 * max(abs(p), abs(q)) for p, q in zip(a, b, strict=True))


def as_chunk(chunk: Chunklike, size: Iterable[float] | None = None) -> Chunk:
    """A chunk of whatever names one: a `Chunk`, an id (or its decimal text), three coordinates."""
    if isinstance(chunk, Chunk):
        return chunk
    if isinstance(chunk, int | np.integer | str):
        return Chunk.from_id(int(chunk), size)
    return Chunk(chunk, size)


def chunklist(chunks: Iterable[Chunklike]) -> list[Chunk]:
    """Chunks in the order of their integer ids, each once."""
    return sorted({as_chunk(c) for c in chunks})


def chunk_ids(coordinates: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Ids of chunks given as an (N, 3) array of x, y, z."""
    c = np.asarray(coordinates).astype(np.int64).reshape(-1, 3) & 0xFFFF
    return c[:, 0] | c[:, 1] << 16 | c[:, 2] << 32


def chunk_coordinates(ids: npt.ArrayLike) -> npt.NDArray[np.int16]:
    """Coordinates (N, 3) of chunk ids: the inverse of `chunk_ids`."""
    i = np.asarray(ids, dtype=np.int64).reshape(-1, 1) >> np.array([0, 16, 32])
    return np.asarray((i & 0xFFFF).astype(np.uint16).view(np.int16))


def _signed(bits: int) -> int:
    bits &= 0xFFFF
    return bits - 0x10000 if bits >= 0x8000 else bits
