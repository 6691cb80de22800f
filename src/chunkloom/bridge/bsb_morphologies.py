"""BSB's morphology repository on a network file's: its trees of branches to ours and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from bsb._encoding import EncodedLabels
from bsb.exceptions import MorphologyRepositoryError
from bsb.morphologies import Branch
from bsb.morphologies import Morphology as BsbMorphology
from bsb.storage.interfaces import MorphologyRepository as BsbRepository
from bsb.storage.interfaces import StoredMorphology

from chunkloom.network import Morphology
from chunkloom.network.errors import NetworkExistsError, NetworkNotFoundError


class MorphologyRepository(BsbRepository):  # type: ignore[misc, unused-ignore]
    """The stored morphologies, for BSB."""

    def all(self) -> list[StoredMorphology]:
        return [self._stored(name, meta) for name, meta in self.get_all_meta().items()]

    def select(self, *selectors: Any) -> list[StoredMorphology]:
        """Those any of the selectors picks."""
        every = self.all()
        for selector in selectors:
            selector.validate(every)
        return [m for m in every if any(s.pick(m) for s in selectors)]

    def has(self, name: str) -> bool:
        return bool(self._engine.network.morphologies.has(name))

    def preload(self, name: str) -> StoredMorphology:
        return self._stored(name, self.get_meta(name))

    def load(self, name: str) -> BsbMorphology:
        return self.preload(name).load()

    def get_meta(self, name: str) -> dict[str, Any]:
        try:
            return dict(self._engine.network.morphologies.get_meta(name))
        except NetworkNotFoundError as error:
            raise MorphologyRepositoryError(str(error)) from error

    def get_all_meta(self) -> dict[str, Any]:
        return dict(self._engine.network.morphologies.get_all_meta())

    def set_all_meta(self, all_meta: Any) -> None:
        self._engine.network.morphologies.set_all_meta(all_meta)

    def update_all_meta(self, meta: Any) -> None:
        self._engine.network.morphologies.update_all_meta(meta)

    def save(self, name: str, morphology: Any, overwrite: bool = False, update_meta: bool = True) -> StoredMorphology:
        ours = from_bsb(morphology)
        meta = {k: v for k, v in morphology.meta.items() if k not in ("name", "ldc", "mdc")}
        try:
            self._engine.network.morphologies.save(name, ours, meta=meta, overwrite=overwrite)
        except NetworkExistsError as error:
            raise MorphologyRepositoryError(str(error)) from error
        return self.preload(name)

    def remove(self, name: str) -> None:
        try:
            self._engine.network.morphologies.remove(name)
        except NetworkNotFoundError as error:
            raise MorphologyRepositoryError(str(error)) from error

    def _stored(self, name: str, meta: dict[str, Any]) -> StoredMorphology:
        def load() -> BsbMorphology:
            return to_bsb(self._engine.network.morphologies.load(name), dict(meta))

        return StoredMorphology(name, load, meta)


def from_bsb(morphology: Any) -> Morphology:
    """A morphology of BSB's as ours. It is not changed."""
    branches = morphology.branches
    index = {id(b): i for i, b in enumerate(branches)}
    names = list(dict.fromkeys(k for b in branches for k in b._properties))
    labels = EncodedLabels.concatenate(*(b.labels for b in branches))
    return Morphology(
        points=np.concatenate([b.points for b in branches]) if branches else np.empty((0, 3)),
        radii=np.concatenate([b.radii for b in branches]) if branches else np.empty(0),
        ends=np.cumsum([len(b) for b in branches]).astype(np.int64),
        parents=np.array([index.get(id(b.parent), -1) for b in branches], np.int64),
        labels=np.asarray(labels, np.int64),
        labelsets={int(k): frozenset(v) for k, v in labels.labels.items()},
        properties={
            name: np.concatenate([b._properties.get(name, np.full(len(b), np.nan)) for b in branches]).astype(float)
            for name in names
        },
    )


def to_bsb(morphology: Morphology, meta: dict[str, Any]) -> BsbMorphology:
    """A morphology of ours as BSB's, its branches sharing one buffer."""
    n = len(morphology.points)
    sets = {k: set(v) for k, v in morphology.labelsets.items()}
    labels = EncodedLabels(n, buffer=np.array(morphology.labels, dtype=int), labels=sets)
    points, radii = np.array(morphology.points), np.array(morphology.radii)
    properties = {k: np.array(v) for k, v in morphology.properties.items()}
    branches, roots = [], []
    for i, parent in enumerate(morphology.parents.tolist()):
        here = morphology.branch(i)
        branch = Branch(points[here], radii[here], labels[here], {k: v[here] for k, v in properties.items()})
        branches.append(branch)
        if parent < 0:
            roots.append(branch)
        else:
            branches[parent].attach_child(branch)
    return BsbMorphology(roots, meta, shared_buffers=(points, radii, labels, properties))
