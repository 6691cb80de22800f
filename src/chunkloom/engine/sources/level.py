"""A volume from one of its levels on: what a model bound to a voxel size reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from chunkloom.engine.volume import Array, Volume, make_digest
from chunkloom.errors import ParameterError
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
        self.seams = volume.seams if first == 0 else None

    @property
    def stage_digest(self) -> str:
        return self.source.stage_digest if self.first == 0 else make_digest([self.source.stage_digest, self.first])

    @property
    def parts(self) -> tuple[Volume, ...]:
        return (self.source,)

    def state(self, level: int, box: Box) -> str:
        return self.source.state(level + self.first, box)

    @property
    def own_levels(self) -> int:
        return self.source.own_levels - self.first

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


def level_named(volume: Volume, name: str) -> int:
    """The level called "s1" or "1": by number, 0 the finest."""
    number = name.removeprefix("s")
    if not number.isdigit() or int(number) >= len(volume.levels):
        sizes = ", ".join(
            f"s{i} ({', '.join(f'{v:g}' for v in level.voxel_size_nm)} nm)" for i, level in enumerate(volume.levels)
        )
        raise ParameterError(f"no level {name!r}: the volume has {sizes}")
    return int(number)
