"""The predictions of several models over one dataset as one volume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chunkloom.engine.volume import Array, Volume, make_digest
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.models.merger import Mode, merge

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work


class MergedVolume(Volume):
    """Volumes of one shape and place, merged voxel by voxel. Made with `merged`."""

    def __init__(self, volumes: Sequence[Volume], mode: Mode) -> None:
        self.volumes = tuple(volumes)
        self.mode = mode
        self.levels = volumes[0].levels
        self.kind = volumes[0].kind
        self.warnings = tuple(dict.fromkeys(w for volume in volumes for w in volume.warnings))

    @property
    def stage_digest(self) -> str:
        return make_digest(["merged", self.mode, [volume.stage_digest for volume in self.volumes]])

    @property
    def own_levels(self) -> int:
        return min(volume.own_levels for volume in self.volumes)

    def cost(self, level: int) -> int:
        return sum(volume.cost(level) for volume in self.volumes)

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        return merge([volume.read_box(level, box, work) for volume in self.volumes], self.mode)


def merged(volumes: Sequence[Volume], mode: Mode = "and") -> Volume:
    """One volume of several: voxel by voxel the least ("and"), the largest ("or") or the mean ("sum").

    Raises
    ------
    ParameterError
        No volumes, volumes of labels, or of different shapes, places or dtypes.
    """
    if not volumes:
        raise ParameterError("there are no volumes to merge: expected at least one")
    if any(volume.kind == "labels" for volume in volumes):
        raise ParameterError("ids of objects cannot be merged voxel by voxel: merge the models' outputs before labels")
    described = [[(lv.shape, lv.dtype, lv.grid) for lv in volume.levels] for volume in volumes]
    if any(other != described[0] for other in described):
        found = "; ".join(f"{d[0][0]} {d[0][1]} at {d[0][2].corner_nm} nm" for d in described)
        raise ParameterError(f"volumes to merge differ in shape, dtype or place: found {found}")
    return MergedVolume(volumes, mode)
