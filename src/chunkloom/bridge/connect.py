"""From a volume of synapses or contacts to the connections of a network: which cells each touches, and which way.

What touches what is counted chunk by chunk (`bridge.sweeps`); what that says of connections is decided here, once, on
whole counts (`synaptic_pairs`, `contact_pairs`). Knows volumes and network files, not the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chunkloom.bridge.sweeps import Progress, sweep_contacts, sweep_synapses
from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.finalize import finalize
from chunkloom.engine.sweep import Each
from chunkloom.engine.volume import Volume
from chunkloom.errors import ConflictError, ParameterError
from chunkloom.kernels.touching import Touches
from chunkloom.network import NetworkFile, PlacementSet
from chunkloom.network.records import Clear

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

MOST_CELLS = 100
"""A synapse that touches more cells than this is none: most likely a mask was given for labels."""

PRE, POST = 1, 2
"""Voxels of a side volume: presynaptic, postsynaptic."""

Ids = NDArray[np.uint64]


class Decided(NamedTuple):
    """Connections between objects of a segmentation, a row each, in the order they are stored in; and what was left
    out."""

    pre: Ids
    post: Ids
    found: int
    alone: int
    undirected: int


@dataclass(frozen=True)
class Connected:
    """What became of a volume of synapses or contacts."""

    tag: str
    connections: int
    found: int
    """Synapses, or pairs of objects in contact."""
    alone: int
    """Synapses that touch fewer than two objects."""
    undirected: int
    """Synapses or contacts that the side volume does not tell the direction of."""
    elsewhere: int
    """Connections left out because the network has no such cells."""


@dataclass(frozen=True)
class Ends:
    """A connectivity set: its tag, and the types of the cells on either end."""

    tag: str
    pre: str
    post: str


def connect_synapses(
    synapses: Volume,
    cells: Volume,
    network: NetworkFile,
    ends: Ends,
    *,
    direction: Volume | None = None,
    min_voxels: int = 1,
    overwrite: bool = False,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Connected:
    """Connect the cells that each synapse touches.

    A synapse is all voxels of one id. It touches the cells its voxels lie in, or border on over a face. Each pair of
    these cells is connected once per synapse: from those on its presynaptic side to those on its postsynaptic one,
    or, without `direction`, both ways.

    Parameters
    ----------
    synapses
        Labels z, y, x; 0 is nothing.
    cells
        The segmentation that the network's cells were extracted from: their `label_id` are its ids.
    direction
        `PRE` (1) and `POST` (2) where a side is known, in the cleft or in the cells. Which side a cell is on is the
        majority of its voxels at the synapse; where those are on neither, the side that all others are not on.
    min_voxels
        Least number of voxels with which a synapse touches a cell.
    overwrite
        Replace the connections this tag has.
    each, work, progress
        As for `chunkloom.engine.objects.measure_objects`.

    Raises
    ------
    ParameterError
        Volumes that are not labels or lie on other voxels; a type without cells or `label_id`; a synapse that touches
        more than `MOST_CELLS`.
    ConflictError
        The tag has connections already, and not `overwrite`.
    """
    known = _known_cells(network, ends, overwrite)
    if synapses.seams is not None:
        synapses = finalize(synapses, each=each, work=work)
    found = sweep_synapses(synapses, cells, direction, each=each, work=work, progress=progress)
    return _write(network, ends, known, synaptic_pairs(found, min_voxels, direction is not None), overwrite)


def connect_contacts(
    contacts: Volume,
    cells: Volume,
    network: NetworkFile,
    ends: Ends,
    *,
    direction: Volume | None = None,
    min_voxels: int = 1,
    overwrite: bool = False,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Connected:
    """Connect each pair of cells that share faces where a mask (`contacts`) is not 0.

    A pair is connected once, both ways or, with `direction`, the way that more of its faces say. `min_voxels` is the
    least number of faces. All else is as for `connect_synapses`.
    """
    known = _known_cells(network, ends, overwrite)
    found = sweep_contacts(contacts, cells, direction, each=each, work=work, progress=progress)
    return _write(network, ends, known, contact_pairs(found, min_voxels, direction is not None), overwrite)


# ---- what that says of connections


def synaptic_pairs(found: Touches, least: int = 1, directed: bool = False) -> Decided:
    """The connections that synapses make, sorted by synapse, presynaptic and postsynaptic cell.

    Raises
    ------
    ParameterError
        A synapse touches more than `MOST_CELLS` cells.
    """
    total = len(np.unique(found.a))
    keep = (found.b != 0) & (found.counts[:, 0] >= least)
    a, b, counts = found.a[keep], found.b[keep], found.counts[keep]
    starts, sizes = _groups(a)
    if len(sizes) and sizes.max() > MOST_CELLS:
        raise ParameterError(
            f"synapse {a[starts[sizes.argmax()]]} touches {sizes.max()} cells, more than {MOST_CELLS}: if the volume "
            "is a mask, give each object an id (--op connected_components), or connect what touches in it (--contacts)"
        )
    several = int((sizes > 1).sum())
    # Every ordered pair of rows of one synapse.
    repeat = np.repeat(sizes, sizes)
    first = np.repeat(np.arange(len(a)), repeat)
    at = np.arange(len(first)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    second = np.repeat(np.repeat(starts, sizes), repeat) + at
    chosen = first != second
    undirected = 0
    if directed:
        side = _sides(counts[:, 1], counts[:, 2], starts, sizes)
        chosen &= (side[first] == PRE) & (side[second] == POST)
        synapse = np.repeat(np.arange(len(sizes)), sizes)[first]
        undirected = several - len(np.unique(synapse[chosen]))
    return Decided(b[first[chosen]], b[second[chosen]], total, total - several, undirected)


def contact_pairs(found: Touches, least: int = 1, directed: bool = False) -> Decided:
    """The connections of objects in contact, sorted by the smaller id, then the larger."""
    keep = found.counts[:, 0] >= least
    a, b, counts = found.a[keep], found.b[keep], found.counts[keep]
    forward = counts[:, 1] > counts[:, 2] if directed else np.ones(len(a), bool)
    back = counts[:, 2] > counts[:, 1] if directed else forward
    pre, post = np.stack([a, b], axis=1), np.stack([b, a], axis=1)
    ways = np.stack([forward, back], axis=1)
    return Decided(pre[ways], post[ways], len(a), 0, int((~ways.any(axis=1)).sum()))


def _groups(sorted_ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not len(sorted_ids):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], sorted_ids[1:] != sorted_ids[:-1]]))
    return starts, np.diff(starts, append=len(sorted_ids))


def _sides(pre: Any, post: Any, starts: Any, sizes: Any) -> NDArray[np.int64]:
    """The side of each cell at its synapse: that of more voxels; 0 where it cannot be told."""
    side = np.where(pre > post, PRE, np.where(post > pre, POST, 0))
    if not len(side):
        return side
    has_pre, has_post = (np.repeat(np.maximum.reduceat(side == s, starts), sizes) for s in (PRE, POST))
    told = np.where(has_pre & ~has_post, POST, np.where(has_post & ~has_pre, PRE, 0))
    return np.where((side == 0) & (pre == 0) & (post == 0), told, side)


# ---- into the network


class _Cells(NamedTuple):
    """Cells of a type that can be found by their object's id."""

    set: PlacementSet
    ids: Ids
    ranks: NDArray[np.int64]

    def find(self, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Ranks of objects, and which of them are there."""
        if not len(self.ids):
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
        at = np.searchsorted(self.ids, wanted).clip(max=len(self.ids) - 1)
        return self.ranks[at], self.ids[at] == wanted


def _known_cells(network: NetworkFile, ends: Ends, overwrite: bool) -> tuple[_Cells, _Cells]:
    if ends.tag in network.connectivity_tags():
        links = network.connectivity(ends.tag)
        if (links.pre, links.post) != (ends.pre, ends.post):
            raise ConflictError(
                f"{network.path}: {ends.tag!r} connects {links.pre!r} to {links.post!r}, not {ends.pre!r} to "
                f"{ends.post!r}: choose another --tag"
            )
        if len(links) and not overwrite:
            raise ConflictError(
                f"{network.path} has {len(links)} connections {ends.tag!r} already: choose another --tag, or "
                "--overwrite to replace them"
            )
    pre = _cells_of(network, ends.pre)
    return pre, pre if ends.post == ends.pre else _cells_of(network, ends.post)


def _cells_of(network: NetworkFile, cell_type: str) -> _Cells:
    known = network.placement_names()
    if cell_type not in known:
        raise ParameterError(
            f"{network.path} has no cells of type {cell_type!r}, but {', '.join(known) or 'none at all'}: "
            "`chunkloom network extract` makes them"
        )
    cells = network.placement(cell_type)
    if not len(cells):
        return _Cells(cells, np.zeros(0, np.uint64), np.zeros(0, np.int64))
    given = cells.load_additional("label_id") if "label_id" in cells.additional_keys() else None
    if given is None or given.dtype.kind not in "iu":
        found = "none" if given is None else f"{given.dtype}"
        raise ParameterError(
            f"{network.path}: the cells of type {cell_type!r} must have whole numbers `label_id`, the ids of the "
            f"segmentation; found {found}. `chunkloom network extract` gives them"
        )
    ids = given.astype(np.uint64)
    ranks = np.argsort(ids, kind="stable").astype(np.int64)
    ids = ids[ranks]
    if (ids[1:] == ids[:-1]).any():
        twice = ids[1:][ids[1:] == ids[:-1]][0]
        raise ParameterError(f"{network.path}: two cells of type {cell_type!r} have label_id {twice}")
    return _Cells(cells, ids, ranks)


def _write(
    network: NetworkFile, ends: Ends, known: tuple[_Cells, _Cells], decided: Decided, overwrite: bool
) -> Connected:
    """Keep the connections between cells that the network has, all or none."""
    (pre, has_pre), (post, has_post) = known[0].find(decided.pre), known[1].find(decided.post)
    both = has_pre & has_post
    links = network.require_connectivity(ends.pre, ends.post, ends.tag)
    with network.at_once() as batch:
        if overwrite:
            batch.submit(Clear(links.path, None))
        links.connect(known[0].set, known[1].set, pre[both], post[both], handle=batch)
    lost = int((~both).sum())
    return Connected(ends.tag, int(both.sum()), decided.found, decided.alone, decided.undirected, lost)
