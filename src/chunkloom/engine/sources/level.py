"""A volume from one of its levels on: what a model bound to a voxel size reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from chunkloom.engine.volume import Array, Volume, make_digest
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.io.source import StoredArray


class LevelView(Volume):
    """`volume` with its level `first` as the finest."""

    def __init__(self, volume: Volume, first: int) -> None:
        volume.level(first)
        self.source = volume
        self.first = first
        self.levels = volume.levels[first:]
        self.kind = volume.kind
        self.warnings = volume.warnings

    @property
    def stage_digest(self) -> str:
        return self.source.stage_digest if self.first == 0 else make_digest([self.source.stage_digest, self.first])

    def cost(self, level: int) -> int:
        return self.source.cost(level + self.first)

    def stored(self, level: int) -> StoredArray | None:
        return self.source.stored(level + self.first)

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        return self.source.read_box(level + self.first, box, work)


def level_for(volume: Volume, voxel_size_nm: Sequence[float], match: Literal["floor", "exact", "nearest"]) -> int:
    """The level for a voxel size (nm, z, y, x)."""
    from chunkloom.io.multiscale import choose_level

    return choose_level(volume.levels, voxel_size_nm, match)
