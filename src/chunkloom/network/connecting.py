"""From connections between cells to connections between chunks: checks, and the order they are stored in. Pure
arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkloom.network.chunks import Chunk
from chunkloom.network.errors import ParameterError, RankError
from chunkloom.network.records import Connect
from chunkloom.network.selection import Selection

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def locations(given: npt.ArrayLike, what: str) -> Array:
    """Locations as an integer (N, 3) array: cell, branch, point. Bare cells become (cell, -1, -1): the whole cell.

    Raises
    ------
    ParameterError
        Neither (N,) nor (N, 3) whole numbers, or -1 in only one of branch and point.
    """
    whole = np.asarray(given)
    if whole.size == 0:
        return np.empty((0, 3), np.int64)
    if whole.dtype.kind == "f" and np.array_equal(whole, np.trunc(whole)):
        whole = whole.astype(np.int64)
    if whole.dtype.kind not in "iu" or whole.ndim not in (1, 2) or (whole.ndim == 2 and whole.shape[1] != 3):
        raise ParameterError(
            f"{what}: locations are whole numbers of shape (N,) or (N, 3), found {whole.dtype} {whole.shape}"
        )
    if whole.ndim == 1:
        out = np.full((len(whole), 3), -1, np.int64)
        out[:, 0] = whole
        return out
    return whole


def plan_connections(
    tag: str, pre: Selection, post: Selection, sources: npt.ArrayLike, targets: npt.ArrayLike
) -> Connect | None:
    """The record that connects cells given by their ranks in two selections; None for no connections.

    Raises
    ------
    ParameterError
        Not as many sources as targets, or locations that are none.
    RankError
        A cell on either side is not in its selection.
    """
    src, dst = locations(sources, f"{tag!r}, sources"), locations(targets, f"{tag!r}, targets")
    if len(src) != len(dst):
        raise ParameterError(f"{tag!r}: {len(src)} sources for {len(dst)} targets; nothing was written")
    if not len(src):
        return None
    src, dst = _narrow(src, pre, f"{tag!r}, sources"), _narrow(dst, post, f"{tag!r}, targets")
    pre_at, src_rank = _split(pre, src[:, 0])
    post_at, dst_rank = _split(post, dst[:, 0])
    return sorted_blocks(tag, pre.chunks, post.chunks, pre_at, post_at, (src, src_rank), (dst, dst_rank))


def plan_block(
    tag: str, pre: Chunk, post: Chunk, sources: npt.ArrayLike, targets: npt.ArrayLike, known: dict[str, int | None]
) -> Connect | None:
    """The record for connections between two chunks. `known`: cells of both chunks, or None where that cannot be
    told."""
    src, dst = locations(sources, f"{tag!r}, sources"), locations(targets, f"{tag!r}, targets")
    if len(src) != len(dst):
        raise ParameterError(f"{tag!r}: {len(src)} sources for {len(dst)} targets; nothing was written")
    for what, rows in (("sources", src), ("targets", dst)):
        cells = known[what]
        if len(rows) and (rows[:, 0].min() < 0 or (cells is not None and rows[:, 0].max() >= cells)):
            has = "" if cells is None else f"; the chunk has {cells} cells"
            raise RankError(
                f"{tag!r}, {what}: cells {rows[:, 0].min()} to {rows[:, 0].max()}{has}. Nothing was written"
            )
    if not len(src):
        return None
    ids = {"pre": np.array([pre.id]), "post": np.array([post.id]), "counts": np.array([len(src)])}
    return Connect(tag, ids | {"src": narrow(src), "dst": narrow(dst)})


def sorted_blocks(
    tag: str,
    pre_chunks: Ints,
    post_chunks: Ints,
    pre_at: Array,
    post_at: Array,
    sources: tuple[Array, Array],
    targets: tuple[Array, Array],
) -> Connect:
    """Rows sorted by (post, pre) chunk, in the order given within each pair.

    Parameters
    ----------
    pre_at, post_at : array, (N,)
        Which of `pre_chunks`, `post_chunks` a row belongs to.
    sources, targets : pair of arrays
        Locations (N, 3), and the ranks in their chunks (N,) that replace the first column.
    """
    pairs = len(pre_chunks) * len(post_chunks)
    kind: Any = np.uint16 if pairs <= 1 << 16 else np.uint32 if pairs <= 1 << 32 else np.uint64
    key: Array = post_at.astype(kind) * kind(len(pre_chunks)) + pre_at.astype(kind)
    if len(key) and np.all(key[1:] >= key[:-1]):
        order: Any = None
    else:
        order = np.argsort(key, kind="stable")
        key = key.take(order)
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    counts = np.diff(starts, append=len(key))
    present = key[starts].astype(np.int64)
    post_index, pre_index = np.divmod(present, len(pre_chunks))
    columns = []
    for rows, ranks in (sources, targets):
        moved = rows.copy() if order is None else rows.take(order, 0)
        moved[:, 0] = ranks if order is None else ranks.take(order)
        columns.append(moved)
    return Connect(
        tag,
        {
            "pre": pre_chunks[pre_index],
            "post": post_chunks[post_index],
            "counts": counts.astype(np.int64),
            "src": columns[0],
            "dst": columns[1],
        },
    )


def narrow(rows: Array) -> Array:
    """The rows in the smallest of int16, int32 and int64 that holds them: the journal is as much shorter."""
    low, high = int(rows.min()), int(rows.max())
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return rows.astype(kind)
    return rows.astype(np.int64)


def _narrow(rows: Array, selection: Selection, what: str) -> Array:
    cells, size = rows[:, 0], len(selection)
    low, high = int(cells.min()), int(cells.max())
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise RankError(f"{what}: cell {wrong} does not exist; {size} cells are selected. Nothing was written")
    if low >= 0 and int(rows.min()) < -1:
        raise ParameterError(f"{what}: branch and point must be -1 (the whole cell) or more. Nothing was written")
    return narrow(rows)


def _split(selection: Selection, cells: Array) -> tuple[Array, Array]:
    """For cells by rank in a selection: index of their chunk, and rank in it."""
    size = len(selection)
    if selection.mask is None and size <= 4 * len(cells) + 1024:
        kind = np.uint16 if len(selection.chunks) <= 1 << 16 else np.uint32
        table = np.repeat(np.arange(len(selection.chunks), dtype=kind), selection.counts)
        starts = np.cumsum(selection.counts) - selection.counts
        ranks = np.arange(size) - np.repeat(starts, selection.counts)
        return table.take(cells), ranks.astype(cells.dtype).take(cells)
    return selection.in_chunks(cells.astype(np.int64))
