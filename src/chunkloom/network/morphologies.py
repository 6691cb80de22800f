"""Morphologies: branched lines of points with radii and labels, and the repository of a network file that keeps them.

A morphology is loaded when it is asked for. Points are x, y, z in µm. Knows the tree, not how SWC text looks (`swc`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.apply import read_morphology_meta
from chunkloom.network.errors import (
    FormatError,
    NetworkExistsError,
    NetworkNotFoundError,
    ParameterError,
)
from chunkloom.network.records import Delete, MorphologyMeta
from chunkloom.network.records import Morphology as MorphologyRecord
from chunkloom.network.resource import Network, Resource, checked_name
from chunkloom.network.statistics import MORPHOLOGIES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Morphology:
    """A tree of unbranched stretches of points.

    Attributes
    ----------
    points : array, (N, 3)
        x, y, z, branch after branch, depth first. A branch that leaves another begins with a copy of the point it
        leaves.
    radii : array, (N,)
    ends, parents : arrays of int64, (B,)
        Where each branch ends (exclusive), and the branch it leaves, or -1.
    labels : array of int64, (N,)
        A number of `labelsets` for each point.
    labelsets : mapping of int to frozenset of str
    properties : mapping of str to array, (N,)
        Anything else there is a number of per point.
    """

    points: Floats
    radii: Floats
    ends: Ints
    parents: Ints
    labels: Ints
    labelsets: Mapping[int, frozenset[str]] = field(default_factory=lambda: {0: frozenset()})
    properties: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, b = len(self.points), len(self.ends)
        columns = [self.radii, self.labels, *self.properties.values()]
        if self.points.shape != (n, 3) or any(len(c) != n for c in columns) or len(self.parents) != b:
            raise ParameterError(
                f"morphology: {n} points of shape {self.points.shape} with columns of {[len(c) for c in columns]}, {b} "
                f"branch ends "
                f"and {len(self.parents)} parents; they must agree"
            )
        rising = b == 0 or (self.ends[0] >= 0 and bool((np.diff(self.ends) >= 0).all()))
        if not rising or (self.ends[-1] if b else 0) != n:
            raise ParameterError(
                f"morphology: branch ends must not fall, and end at the {n} points, found {self.ends.tolist()}"
            )
        if (self.parents >= np.arange(b)).any() or (self.parents < -1).any():
            raise ParameterError(f"morphology: a branch's parent must come before it, found {self.parents.tolist()}")

    def branch(self, index: int) -> slice:
        """The points of one branch."""
        return slice(int(self.ends[index - 1]) if index else 0, int(self.ends[index]))

    def point_labels(self) -> list[frozenset[str]]:
        """The labels of every point."""
        return [self.labelsets.get(int(n), frozenset()) for n in self.labels]

    @property
    def ldc(self) -> Floats:
        """Least x, y, z of its points."""
        return np.asarray(self.points.min(axis=0) if len(self.points) else np.zeros(3))

    @property
    def mdc(self) -> Floats:
        """Most x, y, z of its points."""
        return np.asarray(self.points.max(axis=0) if len(self.points) else np.zeros(3))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Morphology):
            return NotImplemented
        return (
            all(np.array_equal(a, b) for a, b in zip(self._arrays(), other._arrays(), strict=True))
            and self.point_labels() == other.point_labels()
            and {k: v.tolist() for k, v in self.properties.items()}
            == {k: v.tolist() for k, v in other.properties.items()}
        )

    __hash__ = None  # type: ignore[assignment]

    def _arrays(self) -> tuple[Any, ...]:
        return self.points, self.radii, self.ends, self.parents


class StoredMorphology:
    """A morphology of a repository, loaded at the first `load`."""

    def __init__(self, repository: MorphologyRepository, name: str, meta: dict[str, Any]) -> None:
        self.name = name
        self.meta = meta
        self._repository = repository
        self._loaded: Morphology | None = None

    def load(self) -> Morphology:
        """The morphology."""
        if self._loaded is None:
            self._loaded = self._repository.load(self.name)
        return self._loaded

    def __repr__(self) -> str:
        return f"<StoredMorphology {self.name!r}>"


class MorphologyRepository(Resource):
    """The morphologies of a network file, by name."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, MORPHOLOGIES)

    @handles_handles("r")
    def list(self, *, handle: ReadHandle = OWN) -> list[str]:
        """Names of all morphologies."""
        return sorted(handle.file[MORPHOLOGIES])

    def all(self) -> Any:
        """All morphologies, none of them loaded yet."""
        meta = self.get_all_meta()
        return [StoredMorphology(self, name, meta[name]) for name in self.list()]

    def preload(self, name: str) -> StoredMorphology:
        """One morphology, not loaded yet."""
        return StoredMorphology(self, name, self.get_meta(name))

    def select(self, names: Iterable[str]) -> Any:
        """Those with these names, in their order (`NetworkNotFoundError` for a name that is not there)."""
        return [self.preload(name) for name in names]

    @handles_handles("r")
    def has(self, name: str, *, handle: ReadHandle = OWN) -> bool:
        """Whether there is a morphology of this name."""
        return bool(name) and "/" not in name and name in handle.file[MORPHOLOGIES]

    def __contains__(self, name: str) -> bool:
        return self.has(name)

    @handles_handles("r")
    def load(self, name: str, *, handle: ReadHandle = OWN) -> Morphology:
        """The morphology of a name.

        Raises
        ------
        NetworkNotFoundError
            There is none of this name.
        FormatError
            What is stored is not a morphology.
        """
        return read_morphology(self._node(handle, name))

    @handles_handles("a")
    def save(
        self,
        name: str,
        morphology: Morphology,
        *,
        meta: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        handle: WriteHandle = OWN,
    ) -> StoredMorphology:
        """Store a morphology.

        Raises
        ------
        NetworkExistsError
            There is one of this name, and not `overwrite`.
        """
        checked_name(name, "morphology")
        if not overwrite and self.has(name, handle=handle):
            raise NetworkExistsError(f"there is a morphology {name!r} already; pass overwrite=True to replace it")
        told = {**(meta or {}), "name": name, "ldc": encode_array(morphology.ldc), "mdc": encode_array(morphology.mdc)}
        handle.submit(_record(name, morphology, told))
        return StoredMorphology(self, name, decode_arrays(told))

    @handles_handles("a")
    def remove(self, name: str, *, handle: WriteHandle = OWN) -> None:
        """Remove a morphology and its metadata (`NetworkNotFoundError` if there is none of this name)."""
        self._node(handle, name)
        handle.submit(Delete(f"{MORPHOLOGIES}/{name}"))

    @handles_handles("r")
    def get_meta(self, name: str, *, handle: ReadHandle = OWN) -> dict[str, Any]:
        """Metadata of one morphology."""
        self._node(handle, name)
        found: dict[str, Any] = decode_arrays(read_morphology_meta(handle.file).get(name, {"name": name}))
        return found

    @handles_handles("r")
    def get_all_meta(self, *, handle: ReadHandle = OWN) -> dict[str, dict[str, Any]]:
        """Metadata of all morphologies, by name."""
        kept = read_morphology_meta(handle.file)
        return {name: decode_arrays(kept.get(name, {"name": name})) for name in self.list(handle=handle)}

    @handles_handles("a")
    def set_all_meta(self, meta: Mapping[str, Mapping[str, Any]], *, handle: WriteHandle = OWN) -> None:
        """Replace the metadata of all morphologies."""
        handle.submit(MorphologyMeta(json.dumps({n: dict(m) for n, m in meta.items()}, default=_array_default)))

    @handles_handles("a")
    def update_all_meta(self, meta: Mapping[str, Mapping[str, Any]], *, handle: WriteHandle = OWN) -> None:
        """Add to the metadata of morphologies, or change them."""
        kept = read_morphology_meta(handle.file)
        for name, more in meta.items():
            kept.setdefault(name, {}).update(more)
        self.set_all_meta(kept, handle=handle)

    def import_swc(self, path: str | Path, name: str | None = None, *, overwrite: bool = False) -> StoredMorphology:
        """Store the morphology of an SWC file, under the file's name unless another is given."""
        from chunkloom.network.swc import parse_swc

        source = Path(path)
        return self.save(name or source.stem, parse_swc(source.read_text(), source.name), overwrite=overwrite)

    def export_swc(self, name: str, path: str | Path) -> None:
        """Write a morphology as an SWC file."""
        from chunkloom.network.swc import format_swc

        Path(path).write_text(format_swc(self.load(name)))

    def _node(self, handle: ReadHandle, name: str) -> h5py.Group:
        if not self.has(name, handle=handle):
            known = ", ".join(handle.file[MORPHOLOGIES]) or "none"
            raise NetworkNotFoundError(f"no morphology {name!r}; there are: {known}")
        return handle.file[MORPHOLOGIES][name]


def read_morphology(group: h5py.Group) -> Morphology:
    """The morphology of a group of the file."""
    try:
        data, graph = group["data"][()], group["graph"][()]
        labels = json.loads(group["data"].attrs.get("labels", '{"0": []}'))
        names = [str(n) for n in group["data"].attrs.get("properties", ())]
        if data.ndim != 2 or data.shape[1] != 5 + len(names):
            raise ValueError(f"data of shape {data.shape} with {len(names)} properties")
        return Morphology(
            points=data[:, :3].astype(float),
            radii=data[:, 3].astype(float),
            ends=graph[:, 0].astype(np.int64),
            parents=graph[:, 1].astype(np.int64),
            labels=data[:, 4].astype(np.int64),
            labelsets={int(n): frozenset(s) for n, s in labels.items()},
            properties={n: data[:, 5 + i].astype(float) for i, n in enumerate(names)},
        )
    except (KeyError, ValueError, IndexError) as error:
        raise FormatError(f"{group.name} is not a morphology: {error}") from error


def encode_array(values: npt.ArrayLike) -> list[Any]:
    """An array as the format's JSON has it: a list that ends in a mark."""
    return [*np.asarray(values).tolist(), "__ndarray__"]


def decode_arrays(meta: Any) -> Any:
    """Metadata with arrays where their JSON has the mark; empty lists stay lists."""
    if isinstance(meta, dict):
        return {k: decode_arrays(v) for k, v in meta.items()}
    if isinstance(meta, list) and meta and meta[-1] == "__ndarray__":
        return np.array(meta[:-1])
    return meta


def _array_default(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return encode_array(value)
    if isinstance(value, np.generic):
        return value.item()
    raise ParameterError(f"metadata cannot hold {type(value).__name__}")


def _record(name: str, morphology: Morphology, meta: dict[str, Any]) -> MorphologyRecord:
    columns = [morphology.points, morphology.radii[:, None], morphology.labels[:, None].astype(float)]
    columns.extend(np.asarray(v, float)[:, None] for v in morphology.properties.values())
    labels = {str(n): sorted(s) for n, s in sorted(morphology.labelsets.items())}
    return MorphologyRecord(
        name=name,
        labels=json.dumps(labels),
        properties=tuple(morphology.properties),
        meta=json.dumps(meta, default=_array_default),
        arrays={
            "data": np.hstack(columns).astype("<f8"),
            "graph": np.column_stack((morphology.ends, morphology.parents)).astype("<i8"),
        },
    )
