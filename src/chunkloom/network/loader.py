"""Chunked storage for a resource: a group per chunk, a dataset per property, a group of datasets per collection.

`ChunkLoader` is a mixin: a resource names its properties and collections as class parameters and gets a chunk
filter, loading in chunk order, and writing. Knows records and the layout of a chunk, not what cells are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkloom.network import hdf5
from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.chunks import Chunk, Chunklike, Size, as_chunk, chunklist, same_size
from chunkloom.network.errors import ParameterError
from chunkloom.network.records import Overwrite, Rows
from chunkloom.network.resource import Network, checked_name

Array = npt.NDArray[Any]
_MANY = 50  # chunks from which opening the file once more pays


class ChunkLoader:
    """Mixin for resources stored in chunks.

    Class parameters
    ----------------
    properties : tuple of callables
        Each takes the loader and returns a `ChunkedProperty`; bound as `self._<name>_chunks`.
    collections : tuple of callables
        The same for `ChunkedCollection`.

    The chunk filter: None loads every chunk of the file, a list loads those (and the empty list none). It is kept in
    this object, not in the file.
    """

    network: Network
    _path: str
    _properties: ClassVar[tuple[Callable[[ChunkLoader], ChunkedProperty], ...]] = ()
    _collections: ClassVar[tuple[Callable[[ChunkLoader], ChunkedCollection], ...]] = ()

    def __init_subclass__(
        cls,
        *,
        properties: tuple[Callable[[Any], ChunkedProperty], ...] | None = None,
        collections: tuple[Callable[[Any], ChunkedCollection], ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if properties is not None:
            cls._properties = properties
        if collections is not None:
            cls._collections = collections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._filter: list[Chunk] | None = None
        self.properties = [make(self) for make in type(self)._properties]
        self.collections = [make(self) for make in type(self)._collections]
        bound: list[ChunkedProperty | ChunkedCollection] = [*self.properties, *self.collections]
        for stored in bound:
            setattr(self, f"_{stored.name}_chunks", stored)

    # ---- which chunks

    @handles_handles("r")
    def get_all_chunks(self, *, handle: ReadHandle = OWN) -> list[Chunk]:
        """Every chunk the file has for this resource, in the order of their ids."""
        of = handle.stats.sets.get(self._path)
        size = handle.stats.chunk_size
        return [] if of is None else [Chunk.from_id(c, size) for c in sorted(of.cells)]

    def get_loaded_chunks(self, *, handle: ReadHandle | None = None) -> list[Chunk]:
        """The chunks that are loaded: those of the filter, or every one of the file."""
        if self._filter is not None:
            return list(self._filter)
        return self.get_all_chunks() if handle is None else self.get_all_chunks(handle=handle)

    def loaded_ids(self, handle: ReadHandle) -> list[int]:
        """Ids of the chunks that are loaded and in the file, in order."""
        of = handle.stats.sets.get(self._path)
        if of is None:
            return []
        if self._filter is None:
            return sorted(of.cells)
        return [c.id for c in self._filter if c.id in of.cells]

    def set_chunk_filter(self, chunks: Iterable[Chunklike]) -> None:
        """Load only these chunks; none at all if the list is empty."""
        self._filter = chunklist(chunks)

    def clear_chunk_filter(self) -> None:
        """Load every chunk again."""
        self._filter = None

    def include_chunk(self, chunk: Chunklike) -> None:
        """Add a chunk to the filter (which then exists). A chunk is loaded once, however often it is included."""
        self._filter = chunklist([*(self._filter or ()), chunk])

    def exclude_chunk(self, chunk: Chunklike) -> None:
        """Take a chunk out of what is loaded; after the last one nothing is."""
        gone = as_chunk(chunk)
        self._filter = [c for c in self.get_loaded_chunks() if c != gone]

    @contextlib.contextmanager
    def chunk_context(self, chunks: Iterable[Chunklike]) -> Iterator[None]:
        """Another filter for the duration of a block; the former one returns even after an error."""
        former = self._filter
        self.set_chunk_filter(chunks)
        try:
            yield
        finally:
            self._filter = former

    # ---- chunks at rest

    def get_chunk_path(
        self, chunk: Chunklike | None = None, collection: str | None = None, key: str | None = None
    ) -> str:
        """Path in the file of the resource, of a chunk's group, or of a dataset in it."""
        parts = [self._path]
        if chunk is not None:
            parts.append(str(as_chunk(chunk).id))
            parts.extend(p for p in (collection, key) if p is not None)
        return "/".join(parts)

    @handles_handles("a")
    def require_chunk(self, chunk: Chunklike, *, handle: WriteHandle = OWN) -> None:
        """Make the chunk's group if it is not there; sets or checks the file's chunk size."""
        chunk = as_chunk(chunk)
        size = checked_size(handle, chunk)
        of = handle.stats.sets.get(self._path)
        if of is None or chunk.id not in of.cells or size != handle.stats.chunk_size:
            handle.submit(Rows(self._path, chunk.id, size, handle.stats.count(self._path, chunk.id), 0))


def checked_size(handle: ReadHandle, chunk: Chunk) -> Size | None:
    """The chunk size a write states, checked against the file's.

    Raises
    ------
    ParameterError
        The file's chunks have another size.
    """
    known = handle.stats.chunk_size
    if chunk.size is None or known is None:
        return chunk.size or known
    if not same_size(chunk.size, known):
        raise ParameterError(
            f"chunk {chunk.coordinates} of size {chunk.size}: the chunks of this file are {known}. "
            "One file has one chunk size; write this data to another file"
        )
    return known


class ChunkedProperty:
    """One dataset per chunk.

    Parameters
    ----------
    loader : ChunkLoader
        The resource.
    name : str
        The dataset's name in a chunk's group.
    shape : tuple of int
        Shape of no rows, (0, ...).
    dtype : data-type
        Of its values.
    collection : str, optional
        Group inside the chunk's group that holds it.
    """

    def __init__(
        self,
        loader: ChunkLoader,
        name: str,
        shape: tuple[int, ...] = (0,),
        dtype: npt.DTypeLike = float,
        collection: str | None = None,
    ) -> None:
        self.loader = loader
        self.name = name
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.dataset = name if collection is None else f"{collection}/{name}"

    def load(self, *, handle: ReadHandle | None = None) -> Array:
        """Rows of the loaded chunks, joined in the order of their ids. Chunks without this data add none."""
        if handle is None:
            with self.loader.network.reading() as opened:
                return self.load(handle=opened)
        read = self.get_chunk_reader(handle)
        parts = [part for id in self.loader.loaded_ids(handle) if len(part := read(id))]
        return np.concatenate(parts) if parts else np.empty(self.shape, self.dtype)

    def get_chunk_reader(self, handle: ReadHandle) -> Callable[[Chunklike], Array]:
        """A function from a chunk to its rows; none for a chunk that is not there."""
        group = group_of(handle, self.loader._path)

        def read(chunk: Chunklike) -> Array:
            name = f"{as_chunk(chunk).id}/{self.dataset}"
            dataset = None if group is None else hdf5.find(group, name.encode())
            return np.empty(self.shape, self.dtype) if dataset is None else hdf5.read_rows(dataset)

        return read

    def append(self, chunk: Chunklike, rows: npt.ArrayLike, *, handle: WriteHandle | None = None) -> None:
        """Add rows after those the chunk has."""
        if handle is None:
            with self.loader.network.writing() as opened:
                return self.append(chunk, rows, handle=opened)
        former = self.get_chunk_reader(handle)(chunk)
        return self.overwrite(chunk, np.concatenate((former, self._checked(rows))), handle=handle)

    def overwrite(self, chunk: Chunklike, rows: npt.ArrayLike, *, handle: WriteHandle | None = None) -> None:
        """Replace the chunk's rows."""
        if handle is None:
            with self.loader.network.writing() as opened:
                return self.overwrite(chunk, rows, handle=opened)
        chunk = as_chunk(chunk)
        whole = self._checked(rows)
        self.loader.require_chunk(chunk, handle=handle)
        handle.submit(Overwrite(self.loader._path, chunk.id, self.dataset, {"rows": whole}))
        return None

    def clear(self, chunk: Chunklike, *, handle: WriteHandle | None = None) -> None:
        """Remove the chunk's rows."""
        self.overwrite(chunk, np.empty(self.shape, self.dtype), handle=handle)

    def _checked(self, rows: npt.ArrayLike) -> Array:
        whole = np.asarray(rows)
        if whole.size == 0 and whole.ndim < len(self.shape):
            whole = np.empty(self.shape, self.dtype)
        if whole.ndim != len(self.shape) or whole.shape[1:] != self.shape[1:]:
            wanted = ("N", *self.shape[1:])
            raise ParameterError(f"{self.name}: expected rows of shape {wanted}, found {whole.shape}")
        return whole.astype(self.dtype, casting="same_kind")


class ChunkedCollection:
    """Any number of datasets per chunk, each under a key.

    Parameters
    ----------
    loader : ChunkLoader
        The resource.
    name : str
        The group's name in a chunk's group.
    shape, dtype
        As for `ChunkedProperty`; `dtype=None` keeps what is written.
    """

    def __init__(
        self,
        loader: ChunkLoader,
        name: str,
        shape: tuple[int, ...] | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self.loader = loader
        self.name = name
        self.shape = shape or (0,)
        self.dtype = dtype

    def keys(self, *, handle: ReadHandle | None = None) -> list[str]:
        """Every key that some chunk has, in the order they came."""
        if handle is None:
            with self.loader.network.reading() as opened:
                return self.keys(handle=opened)
        of = handle.stats.sets.get(self.loader._path)
        return [] if of is None else of.keys_of(self.name)

    def property(self, key: str, dtype: npt.DTypeLike | None = None) -> ChunkedProperty:
        """One key as a property."""
        kind = dtype if dtype is not None else self.dtype if self.dtype is not None else float
        return ChunkedProperty(self.loader, checked_name(key, "key"), self.shape, kind, self.name)

    def load(self, key: str, *, handle: ReadHandle | None = None) -> Array:
        """Rows of one key in the loaded chunks, as they are stored."""
        return self.property(key).load(handle=handle)

    def load_all(self, *, handle: ReadHandle | None = None) -> dict[str, Array]:
        """Rows of every key."""
        return {key: self.load(key, handle=handle) for key in self.keys(handle=handle)}

    def append(self, chunk: Chunklike, key: str, rows: npt.ArrayLike, *, handle: WriteHandle | None = None) -> None:
        """Add rows to one key of a chunk."""
        self.property(key, self._dtype(rows)).append(chunk, rows, handle=handle)

    def overwrite(self, chunk: Chunklike, key: str, rows: npt.ArrayLike, *, handle: WriteHandle | None = None) -> None:
        """Replace the rows of one key of a chunk."""
        self.property(key, self._dtype(rows)).overwrite(chunk, rows, handle=handle)

    def clear(self, chunk: Chunklike, *, handle: WriteHandle | None = None) -> None:
        """Remove every key of a chunk."""
        for key in self.keys(handle=handle):
            self.property(key).clear(chunk, handle=handle)

    def _dtype(self, rows: npt.ArrayLike) -> npt.DTypeLike:
        return self.dtype if self.dtype is not None else np.asarray(rows).dtype


def group_of(handle: ReadHandle, path: str) -> Any:
    """The low-level group at a path of the file, or None."""
    file = handle.file
    return file[path].id if path in file else None


def gather(
    handle: ReadHandle, path: str, ids: list[int], dataset: str, like: Array, fill: Any
) -> tuple[Array, Array | None]:
    """One dataset of many chunks in one array, a row per cell.

    Parameters
    ----------
    like : array
        An array of no rows with the dtype and the shape of a row.
    fill : scalar
        For cells without a row.

    Returns
    -------
    rows : array
        As many rows as the chunks have cells.
    missing : array of bool, or None
        Which cells have no row of their own; None: all have one.
    """
    cells = handle.stats.sets[path].cells if path in handle.stats.sets else {}
    counts = [cells[id] for id in ids]
    total = sum(counts)
    out = np.empty((total, *like.shape[1:]), like.dtype)
    missing: Array | None = None
    many = handle.file_for_many() if len(ids) > _MANY else contextlib.nullcontext(handle.file)
    with many as file:
        group = file[path].id if path in file else None
        name, at = dataset.encode(), 0
        for id, count in zip(ids, counts, strict=True):
            if count:
                found = None if group is None else hdf5.find(group, b"%d/%s" % (id, name))
                have = 0 if found is None else hdf5.read_into(found, out[at : at + count])
                if have < count:
                    out[at + have : at + count] = fill
                    missing = np.zeros(total, bool) if missing is None else missing
                    missing[at + have : at + count] = True
                at += count
    return out, missing
