"""`ImageDataInterface`: a stored dataset read in world coordinates, normalized, at a model's voxel size.

What model scripts read their data through. It knows the dataset and the normalizers, and nothing of models.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from chunkloom.chain.normalizers import raw_channel
from chunkloom.chain.process import process_chain
from chunkloom.chain.steps import InputNormalizer, SampledNormalizer
from chunkloom.engine.sources.dataset import open_volume
from chunkloom.engine.sources.level import level_for
from chunkloom.engine.volume import Array, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, Grid, Roi, same_voxel_size
from chunkloom.inference.resampling import Resampling, resampling_between

Mismatch = Literal["relabel", "resample"]


class ImageDataInterface:
    """A dataset as an array in the world: axes z, y, x, nanometres, channels first.

    Parameters
    ----------
    dataset_path
        A pyramid or one of its arrays, as `open_volume` takes it.
    voxel_size
        The voxel size to read at, nm: z, y, x, or one number. Default: the finest level's own. The level read is the
        coarsest no coarser than this on any axis.
    normalize
        Whether `to_ndarray_ts` applies the normalizers.
    input_norms
        The normalizers. Default: those of this process's chain, as they are at each read.
    on_voxel_size_mismatch
        Where no level has this voxel size: "relabel" reads the level voxel for voxel as if it had (its corner is
        rescaled with it); "resample" computes voxels of this size, from the level's corner on: a mean where a
        whole number of voxels makes one, else linear interpolation; labels take the nearest.
    concurrency_limit
        How many reads run at a time in this process; kept for scripts that give it, the store decides.
    output_voxel_size
        Deprecated: `voxel_size`.
    custom_fill_value
        Deprecated: what lies outside the data, in place of 0; "edge" repeats the border voxel.

    Attributes
    ----------
    path, shape, axes_names, voxel_size
        Of what is read: shape in voxels with channel axes first; voxel size in nm.
    actual_voxel_size
        The level's own, nm.
    offset, roi
        Lower corner of voxel 0, and the region covered; nm, real numbers.
    resampled
        Whether voxels are computed rather than taken as they are.
    """

    def __init__(
        self,
        dataset_path: str | os.PathLike[str],
        voxel_size: Sequence[float] | float | None = None,
        *,
        normalize: bool = True,
        input_norms: Sequence[InputNormalizer] | None = None,
        on_voxel_size_mismatch: Mismatch = "relabel",
        concurrency_limit: int = 1,
        output_voxel_size: Sequence[float] | float | None = None,
        custom_fill_value: float | Literal["edge"] | None = None,
    ) -> None:
        if on_voxel_size_mismatch not in ("relabel", "resample"):
            raise ParameterError(
                f"on_voxel_size_mismatch is {on_voxel_size_mismatch!r}: expected 'relabel' or 'resample'"
            )
        if output_voxel_size is not None:
            _deprecated("output_voxel_size", "voxel_size")
            voxel_size = output_voxel_size if voxel_size is None else voxel_size
        if custom_fill_value is not None:
            _deprecated("custom_fill_value", "the default: 0 after the normalizers")
        self.path = os.fspath(dataset_path)
        self.normalize = normalize
        self.concurrency_limit = concurrency_limit
        self.custom_fill_value = custom_fill_value
        self._norms = None if input_norms is None else tuple(input_norms)
        self._resolved: dict[tuple[str, ...], tuple[InputNormalizer, ...]] = {}
        self._volume: Volume = open_volume(self.path)
        wanted = self._volume.levels[0].voxel_size_nm if voxel_size is None else _triple(voxel_size)
        self._number = level_for(self._volume, wanted, "floor")
        level = self._volume.levels[self._number]
        self.actual_voxel_size = level.voxel_size_nm
        self.axes_names = level.axes
        self._resampling: Resampling | None = None
        if same_voxel_size(level.voxel_size_nm, wanted):
            self._grid = level.grid
        elif on_voxel_size_mismatch == "relabel":
            scale = [w / v for w, v in zip(wanted, level.voxel_size_nm, strict=True)]
            corner = tuple(c * s for c, s in zip(level.grid.corner_nm, scale, strict=True))
            self._grid = Grid(wanted, corner)
            warnings.warn(
                f"{self.path}: the level read has voxels of {_spell(level.voxel_size_nm)} nm and is read as if of "
                f"{_spell(wanted)} nm; on_voxel_size_mismatch='resample' computes voxels of that size",
                UserWarning,
                stacklevel=2,
            )
        else:
            self._grid = Grid(wanted, level.grid.corner_nm)
            self._resampling = resampling_between(level.voxel_size_nm, wanted, level.dtype)
        spatial = level.spatial_shape if self._resampling is None else self._resampling.shape_of(level.spatial_shape)
        self.shape = (*level.channels, *spatial)
        self.dtype = level.dtype

    @property
    def voxel_size(self) -> tuple[float, ...]:
        return self._grid.voxel_size_nm

    @property
    def offset(self) -> tuple[float, ...]:
        return self._grid.corner_nm

    @property
    def resampled(self) -> bool:
        return self._resampling is not None

    @property
    def roi(self) -> Roi:
        return self._grid.box_to_world(Box.of_shape(self.shape[-3:]))

    @property
    def input_norms(self) -> tuple[InputNormalizer, ...]:
        """The normalizers in force: those given, else those of this process's chain."""
        return process_chain().input_norms if self._norms is None else self._norms

    @property
    def ts(self) -> Any:
        """The level read, as a tensorstore array in stored axis order: its own voxels, not normalized."""
        stored = self._volume.stored(self._number)
        if stored is None:
            raise ParameterError(f"{self.path} is computed: it has no tensorstore array; to_ndarray_ts reads it")
        return stored.tensorstore()

    def with_input_norms(self, input_norms: Sequence[InputNormalizer]) -> ImageDataInterface:
        """The same data under other normalizers. Nothing is opened again."""
        view = copy.copy(self)
        view._norms = tuple(input_norms)
        view._resolved = {}
        return view

    def to_ndarray_ts(self, roi: Any = None) -> Array:
        """The voxels of a region, normalized; what lies outside the data is 0 after the normalizers.

        Parameters
        ----------
        roi
            nm; a `Roi`, or anything with `offset` and `shape`. Default: the whole dataset. Its begin is floored to
            a voxel, and it holds as many whole voxels as its shape.

        Returns
        -------
        numpy.ndarray
            z, y, x, after channel axes where there are such; a new array.
        """
        box = Box.of_shape(self.shape[-3:]) if roi is None else self._grid.world_to_box(Roi.of(roi))
        inside = box.intersect(Box.of_shape(self.shape[-3:]))
        norms = self._statistics_taken() if self.normalize else ()
        channel = raw_channel(norms)
        reach = [sum(step.halo[axis] for step in norms) for axis in range(3)]
        if inside.is_empty:
            # Nothing to normalize; the dtype is what the normalizers make of one voxel.
            sample = self._normalized(self._voxels(Box((0, 0, 0), (1, 1, 1))), norms, channel)
            data = np.empty((*sample.shape[:-3], *(0,) * 3), sample.dtype)
        else:
            wide = inside.grow(reach).intersect(Box.of_shape(self.shape[-3:]))
            data = self._normalized(self._voxels(wide), norms, channel)[inside.index(wide.lo)]
        pad = [(0, 0)] * (data.ndim - 3)
        if inside.is_empty:
            return np.full((*data.shape[:-3], *box.shape), self._fill(), data.dtype)
        pad += [(i - b, h - j) for b, i, j, h in zip(box.lo, inside.lo, inside.hi, box.hi, strict=True)]
        if self.custom_fill_value == "edge":
            return np.pad(data, pad, mode="edge")
        return np.pad(data, pad, constant_values=self._fill())

    def _fill(self) -> float:
        return 0 if self.custom_fill_value in (None, "edge") else float(self.custom_fill_value)

    def _voxels(self, box: Box) -> Array:
        if self._resampling is None:
            return self._volume.read(box, self._number)
        level = self._volume.levels[self._number]
        needed = self._resampling.needs(box).intersect(level.box)
        return self._resampling.compute(self._volume.read(needed, self._number), needed, box, level.spatial_shape)

    def _normalized(self, data: Array, norms: Sequence[InputNormalizer], channel: int | None) -> Array:
        if channel is not None and data.ndim == 4:
            data = data[channel]
        for step in norms:
            data = step.process(data)
        return data

    def _statistics_taken(self) -> tuple[InputNormalizer, ...]:
        """The normalizers with their statistics of the whole volume, which are taken once."""
        norms = self.input_norms
        if all(step.resolved for step in norms if isinstance(step, SampledNormalizer)):
            return norms
        from chunkloom.chain.spec import PipelineSpec
        from chunkloom.engine.ops.steps import resolve_chain

        key = tuple(repr(step) for step in norms)
        if key not in self._resolved:
            self._resolved[key] = resolve_chain(PipelineSpec.from_steps(norms, ()), self._volume).build()[0]
        return self._resolved[key]


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"ImageDataInterface({name}=…) will go in the next release: use {instead}", DeprecationWarning, stacklevel=3
    )


def _triple(size: Sequence[float] | float) -> tuple[float, float, float]:
    values = (size,) * 3 if isinstance(size, int | float) else tuple(size)
    if len(values) != 3:
        raise ParameterError(f"voxel size {values}: expected three numbers of nm (z, y, x), or one")
    z, y, x = (float(v) for v in values)
    return (z, y, x)


def _spell(size: Sequence[float]) -> str:
    return " x ".join(f"{v:.12g}" for v in size)
