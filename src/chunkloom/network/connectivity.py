"""Connectivity sets: connections between the cells of two placement sets, stored by pairs of chunks.

A location is (cell, branch, point), -1 and -1 for the whole cell. Stored twice: as incoming ("inc": the local chunk
is the postsynaptic one) and as outgoing ("out"). Knows how connections are asked for, not how the file is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkloom.network import hdf5
from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.apply_connections import Blocks, read_blocks
from chunkloom.network.chunks import Chunk, Chunklike, as_chunk, chunklist, same_size
from chunkloom.network.connecting import plan_block, plan_connections
from chunkloom.network.errors import (
    ParameterError,
    SetExistsError,
    SetNotFoundError,
)
from chunkloom.network.loader import checked_size
from chunkloom.network.placement import PlacementSet
from chunkloom.network.provenance import now
from chunkloom.network.records import Clear, Delete, Disconnect, Group
from chunkloom.network.resource import Network, Resource, checked_name
from chunkloom.network.statistics import CONNECTIVITY, PLACEMENT, TagCounts

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Direction = Literal["inc", "out"]
DIRECTIONS: tuple[Direction, Direction] = ("inc", "out")


class ConnectivitySet(Resource):
    """The connections of one tag. Get one with `NetworkFile.connectivity` or `NetworkFile.require_connectivity`.

    Raises
    ------
    SetNotFoundError
        The file has no such set.
    """

    def __init__(self, network: Network, tag: str) -> None:
        super().__init__(network, f"{CONNECTIVITY}/{checked_name(tag, 'tag')}")
        self.tag = tag
        with network.reading() as handle:
            of = handle.stats.tags.get(tag)
            if of is None:
                known = ", ".join(handle.stats.tags) or "none"
                raise SetNotFoundError(f"no connectivity set {tag!r} in this file; it has: {known}")
            self.pre, self.post = of.pre, of.post

    @classmethod
    def create(cls, network: Network, pre: str, post: str, tag: str) -> Self:
        """Make a set that must not be there yet (`SetExistsError`)."""
        with network.writing() as handle:
            if tag in handle.stats.tags:
                raise SetExistsError(f"there is a connectivity set {tag!r} already; use require_connectivity")
            handle.submit(_made(pre, post, tag))
        return cls(network, tag)

    @classmethod
    def require(cls, network: Network, pre: str, post: str, tag: str) -> Self:
        """The set, made if it is not there.

        Raises
        ------
        SetExistsError
            It is there, between other cell types.
        """
        with network.reading() as handle:
            of = handle.stats.tags.get(tag)
        if of is None:
            with network.writing() as writer:
                of = writer.stats.tags.get(tag)
                if of is None:
                    writer.submit(_made(pre, post, tag))
        if of is not None and (of.pre, of.post) != (pre, post):
            raise SetExistsError(
                f"connectivity set {tag!r} connects {of.pre!r} to {of.post!r}, not {pre!r} to {post!r}; choose another "
                f"tag"
            )
        return cls(network, tag)

    @staticmethod
    def exists(network: Network, tag: str) -> bool:
        """Whether the file has such a set."""
        with network.reading() as handle:
            return tag in handle.stats.tags

    @staticmethod
    def get_tags(network: Network) -> list[str]:
        """Tags of all sets of the file."""
        with network.reading() as handle:
            return list(handle.stats.tags)

    def remove(self) -> None:
        """Remove the set with all its connections."""
        with self.network.writing() as handle:
            handle.submit(Delete(self._path))

    def clear(self, chunks: Iterable[Chunklike] | None = None) -> None:
        """Remove all connections, or those from or to some chunks."""
        with self.network.writing() as handle:
            self._counts(handle)
            if chunks is None:
                handle.submit(Clear(self._path, None))
                return
            gone = {c.id for c in _several(chunks)}
            pairs = []
            for local in self.get_local_chunks("out", handle=handle):
                blocks = self._local(handle, "out", local)[1]
                for id, n in zip(blocks.ids, blocks.counts(), strict=True):
                    if local.id in gone or id in gone:
                        pairs.append((local.id, id, n))
            if pairs:
                columns = np.array(pairs, np.int64).T
                arrays = dict(zip(("pre", "post", "counts"), columns, strict=True))
                handle.submit(Disconnect(self.tag, arrays))

    def __len__(self) -> int:
        with self.network.reading() as handle:
            return self._counts(handle).total

    def __repr__(self) -> str:
        return f"<ConnectivitySet {self.tag!r}: {self.pre} to {self.post}, {len(self)} connections>"

    # ---- writing

    @handles_handles("a")
    def connect(
        self,
        pre_set: PlacementSet,
        post_set: PlacementSet,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
        *,
        handle: WriteHandle = OWN,
    ) -> None:
        """Connect cells, given by their ranks among the cells the two sets' filters leave.

        Parameters
        ----------
        sources, targets : array of int, (N,) or (N, 3)
            Row i of both is one connection. Neither is changed.

        Raises
        ------
        ParameterError, RankError
            Cells that are not there, on either side; other shapes; different lengths. Nothing was written.
        """
        self._counts(handle)
        for given, wanted, side in ((pre_set, self.pre, "pre"), (post_set, self.post, "post")):
            if given.name != wanted:
                raise ParameterError(f"{self.tag!r}: its {side}synaptic cells are {wanted!r}, not {given.name!r}")
        record = plan_connections(
            self.tag, pre_set.selection(handle=handle), post_set.selection(handle=handle), sources, targets
        )
        if record is not None:
            handle.submit(record)

    @handles_handles("a")
    def chunk_connect(
        self,
        pre_chunk: Chunklike,
        post_chunk: Chunklike,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
        *,
        handle: WriteHandle = OWN,
    ) -> None:
        """Connect cells of two chunks, given by their ranks in those chunks; see `connect`.

        A chunk with a size sets the file's chunk size, or has to have it.
        """
        self._counts(handle)
        pre, post = as_chunk(pre_chunk), as_chunk(post_chunk)
        size = checked_size(handle, pre)
        if post.size is not None and size is not None and not same_size(post.size, size):
            raise ParameterError(f"{self.tag!r}: chunks of size {size} and {post.size}; one file has one chunk size")
        known = {
            side: None if of is None else of.cells.get(chunk.id, 0)
            for side, of, chunk in (
                ("sources", handle.stats.sets.get(f"{PLACEMENT}/{self.pre}"), pre),
                ("targets", handle.stats.sets.get(f"{PLACEMENT}/{self.post}"), post),
            )
        }
        record = plan_block(self.tag, pre, post, sources, targets, known)
        if record is not None:
            handle.submit(replace(record, size=size or post.size))

    # ---- loading

    @handles_handles("r")
    def get_local_chunks(self, direction: Direction, *, handle: ReadHandle = OWN) -> list[Chunk]:
        """Chunks that have connections in a direction, in the order of their ids."""
        self._counts(handle)
        parent = handle.file[f"{self._path}/{_checked(direction)}"]
        return [Chunk.from_id(c, handle.stats.chunk_size) for c in sorted(int(n) for n in parent)]

    @handles_handles("r")
    def get_global_chunks(self, direction: Direction, local: Chunklike, *, handle: ReadHandle = OWN) -> list[Chunk]:
        """Chunks at the other end of a local chunk's connections, in the order of their ids."""
        _, blocks = self._local(handle, direction, as_chunk(local))
        return [Chunk.from_id(c, handle.stats.chunk_size) for c in sorted(blocks.ids)]

    @handles_handles("r")
    def load_block_connections(
        self, direction: Direction, local: Chunklike, global_: Chunklike, *, handle: ReadHandle = OWN
    ) -> tuple[Ints, Ints]:
        """Local and global locations, (N, 3) each, of the connections between two chunks; none if there are none."""
        group, blocks = self._local(handle, direction, as_chunk(local))
        wanted = as_chunk(global_).id
        if group is None or wanted not in blocks.ids:
            return np.empty((0, 3), np.int64), np.empty((0, 3), np.int64)
        at = blocks.ids.index(wanted)
        rows = slice(blocks.starts[at], blocks.starts[at] + blocks.counts()[at])
        return group["local_locs"][rows], group["global_locs"][rows]

    @handles_handles("r")
    def load_local_connections(
        self, direction: Direction, local: Chunklike, *, handle: ReadHandle = OWN
    ) -> tuple[Ints, Ints, Ints]:
        """All connections of a local chunk: local locations (N, 3), chunk ids (N,) and global locations (N, 3)."""
        group, blocks = self._local(handle, direction, as_chunk(local))
        if group is None or not blocks.rows:
            return np.empty((0, 3), np.int64), np.empty(0, np.int64), np.empty((0, 3), np.int64)
        ids = np.repeat(np.array(blocks.ids, np.int64), blocks.counts())
        return _whole(group, b"local_locs"), ids, _whole(group, b"global_locs")

    def flat_iter_connections(
        self,
        direction: Direction | None = None,
        local: Chunklike | Iterable[Chunklike] | None = None,
        global_: Chunklike | Iterable[Chunklike] | None = None,
    ) -> Iterator[tuple[Direction, Chunk, Chunk, tuple[Ints, Ints]]]:
        """Every block as (direction, local chunk, global chunk, (local, global locations)); "inc" before "out".

        Parameters
        ----------
        direction, local, global_
            Only these; chunks one or several.
        """
        wanted = None if global_ is None else {c.id for c in _several(global_)}
        for way in DIRECTIONS if direction is None else (_checked(direction),):
            chunks = self.get_local_chunks(way) if local is None else _several(local)
            for chunk in chunks:
                yield from self._blocks(way, chunk, wanted)

    def nested_iter_connections(
        self,
        direction: Direction | None = None,
        local: Chunklike | None = None,
        global_: Chunklike | None = None,
    ) -> Iterator[Any]:
        """The same blocks for nested loops: (direction, of (local chunk, of (global chunk, data))). An axis that is
        given is left out."""

        def over_globals(way: Direction, here: Chunk) -> Any:
            if global_ is not None:
                return self.load_block_connections(way, here, global_)
            return ((g, data) for _, _, g, data in self._blocks(way, here, None))

        def over_locals(way: Direction) -> Any:
            if local is not None:
                return over_globals(way, as_chunk(local))
            return ((here, over_globals(way, here)) for here in self.get_local_chunks(way))

        if direction is not None:
            found: Iterator[Any] = over_locals(_checked(direction))
            return found
        return ((way, over_locals(way)) for way in DIRECTIONS)

    @handles_handles("r")
    def load_connections(
        self,
        direction: Direction = "out",
        pre_chunks: Iterable[Chunklike] | None = None,
        post_chunks: Iterable[Chunklike] | None = None,
        *,
        handle: ReadHandle = OWN,
    ) -> tuple[Ints, Ints]:
        """All connections as presynaptic and postsynaptic locations, (N, 3) each, with the ids of cells in their
        whole sets.

        Parameters
        ----------
        direction : "out" or "inc"
            The order: by presynaptic chunk, or by postsynaptic chunk.
        pre_chunks, post_chunks
            Only connections from, to these.
        """
        self._counts(handle)
        keep_pre, keep_post = _only(pre_chunks), _only(post_chunks)
        keep_local, keep_global = (keep_pre, keep_post) if direction == "out" else (keep_post, keep_pre)
        local_first, global_first = (
            self._first_ids(handle, name)
            for name in ((self.pre, self.post) if direction == "out" else (self.post, self.pre))
        )
        ours, theirs = [], []
        for chunk in self.get_local_chunks(direction, handle=handle):
            if keep_local is not None and chunk.id not in keep_local:
                continue
            here, ids, there = self.load_local_connections(direction, chunk, handle=handle)
            order = _in_id_order(self._local(handle, direction, chunk)[1], keep_global)
            if order is not None:
                here, ids, there = here[order], ids[order], there[order]
            here[:, 0] += local_first.get(chunk.id, 0)
            present, inverse = np.unique(ids, return_inverse=True)
            there[:, 0] += np.array([global_first.get(int(i), 0) for i in present], np.int64)[inverse]
            ours.append(here)
            theirs.append(there)
        empty = np.empty((0, 3), np.int64)
        a = np.concatenate(ours) if ours else empty
        b = np.concatenate(theirs) if theirs else empty
        return (a, b) if direction == "out" else (b, a)

    @handles_handles("r")
    def get_chunk_stats(self, *, handle: ReadHandle = OWN) -> dict[int, dict[str, int]]:
        """Incoming and outgoing connections per chunk id."""
        return {c: {"inc": inc, "out": out} for c, (inc, out) in sorted(self._counts(handle).chunks.items())}

    # ---- private

    def _counts(self, handle: ReadHandle) -> TagCounts:
        of = handle.stats.tags.get(self.tag)
        if of is None:
            raise SetNotFoundError(f"connectivity set {self.tag!r} has been removed from the file")
        return of

    def _local(self, handle: ReadHandle, direction: Direction, local: Chunk) -> tuple[Any, Blocks]:
        self._counts(handle)
        parent = handle.file[f"{self._path}/{_checked(direction)}"]
        group = parent.get(str(local.id))
        return group, Blocks((), (), 0) if group is None else read_blocks(group)

    def _blocks(
        self, direction: Direction, local: Chunk, wanted: set[int] | None
    ) -> Iterator[tuple[Direction, Chunk, Chunk, tuple[Ints, Ints]]]:
        with self.network.reading() as handle:
            group, blocks = self._local(handle, direction, local)
            size = handle.stats.chunk_size
            if group is None:
                return
            ours, theirs = _whole(group, b"local_locs"), _whole(group, b"global_locs")
        first = dict(zip(blocks.ids, zip(blocks.starts, blocks.counts(), strict=True), strict=True))
        for id in sorted(blocks.ids):
            if wanted is None or id in wanted:
                start, n = first[id]
                data = ours[start : start + n], theirs[start : start + n]
                yield direction, local, Chunk.from_id(id, size), data

    def _first_ids(self, handle: ReadHandle, name: str) -> dict[int, int]:
        of = handle.stats.sets.get(f"{PLACEMENT}/{name}")
        first, at = {}, 0
        for chunk in sorted(of.cells) if of is not None else ():
            first[chunk] = at
            at += of.cells[chunk] if of is not None else 0
        return first


def _made(pre: str, post: str, tag: str) -> Group:
    path = f"{CONNECTIVITY}/{checked_name(tag, 'tag')}"
    return Group(path, {"pre": pre, "post": post, "tag": tag, "created_at": now()})


def _whole(group: Any, name: bytes) -> Ints:
    dataset = hdf5.find(group.id, name)
    return np.empty((0, 3), np.int64) if dataset is None else hdf5.read_rows(dataset)


def _checked(direction: str) -> Direction:
    if direction not in DIRECTIONS:
        raise ParameterError(f'direction {direction!r}: expected "inc" or "out"')
    return "inc" if direction == "inc" else "out"


def _several(chunks: Any) -> list[Chunk]:
    if isinstance(chunks, Chunk | int | np.integer | str):
        return [as_chunk(chunks if isinstance(chunks, Chunk | str) else int(chunks))]
    given = list(chunks)
    if len(given) == 3 and all(isinstance(c, int | np.integer) for c in given):
        return [Chunk(given)]
    return chunklist(given)


def _only(chunks: Iterable[Chunklike] | None) -> set[int] | None:
    return None if chunks is None else {c.id for c in _several(chunks)}


def _in_id_order(blocks: Blocks, keep: set[int] | None) -> Ints | None:
    """Rows in the order of their blocks' chunk ids, of the blocks to keep; None: as they are."""
    if keep is None and list(blocks.ids) == sorted(blocks.ids):
        return None
    first = dict(zip(blocks.ids, zip(blocks.starts, blocks.counts(), strict=True), strict=True))
    chosen = [np.arange(first[i][0], sum(first[i])) for i in sorted(blocks.ids) if keep is None or i in keep]
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)
