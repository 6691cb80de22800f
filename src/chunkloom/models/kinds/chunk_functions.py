"""Scripts that bring a function, `process_chunk(idi, roi)` or `predict(read_roi, write_roi, config)`, and no module.

They ask an image for voxels by roi, in nm. Here that image is the block that was read for one tile, normalized; what a
function asks for beyond it is refused, for it would be missing without a word.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.geometry import Roi
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, channels_first


class BlockImage:
    """The block read for one tile, asked for by roi as `ImageDataInterface` is.

    Attributes
    ----------
    roi
        What was read, nm.
    voxel_size
        nm, z, y, x.
    """

    def __init__(self, block: Array, geometry: ModelGeometry, path: Path) -> None:
        self._block = block
        self._script = path
        self.path = str(path)
        self.voxel_size = geometry.input_voxel_size
        self.actual_voxel_size = self.voxel_size
        self.offset = tuple(-c * v for c, v in zip(geometry.context, self.voxel_size, strict=True))
        self.shape = block.shape[1:]
        self.axes_names = ["z", "y", "x"]
        self.dtype = block.dtype
        self.roi = Roi(self.offset, geometry.read_shape)

    def to_ndarray_ts(self, roi: Any = None) -> Array:
        """The voxels of `roi`, (z, y, x), or (c, z, y, x) where the data has channels."""
        wanted = self.roi if roi is None else Roi.of(roi)
        lo = [round((b - o) / v) for b, o, v in zip(wanted.get_begin(), self.offset, self.voxel_size, strict=True)]
        shape = [round(n / v) for n, v in zip(wanted.get_shape(), self.voxel_size, strict=True)]
        if any(a < 0 or a + n > m for a, n, m in zip(lo, shape, self.shape, strict=True)):
            raise ModelError(
                f"{self._script}: asks for {wanted}, the block read for this tile is {self.roi}: declare a read_shape "
                "(or input_size) that holds all it reads"
            )
        cut = (slice(None), *(slice(a, a + n) for a, n in zip(lo, shape, strict=True)))
        found = self._block[cut]
        return found[0] if len(found) == 1 else found

    def with_input_norms(self, norms: Any) -> BlockImage:
        """Itself: the block is normalized already, by the chain in force."""
        return self


def function_forward(names: dict[str, Any], geometry: ModelGeometry, path: Path) -> Callable[[Array], Array] | None:
    """The forward of a script's `process_chunk` or `predict`; None where it has neither."""
    process, predict = names.get("process_chunk"), names.get("predict")
    write = Roi((0, 0, 0), geometry.write_shape)
    if callable(process):

        def forward(block: Array) -> Array:
            return _checked(process(BlockImage(block, geometry, path), write), path, "process_chunk")

        return forward
    if not callable(predict):
        return None
    config = SimpleNamespace(**{k: v for k, v in names.items() if not k.startswith("__")})
    accepted = inspect.signature(predict).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())

    def forward_predict(block: Array) -> Array:
        image = BlockImage(block, geometry, path)
        more = {"idi": image, "device": names.get("device", "cpu"), "use_half_prediction": False}
        given = {k: v for k, v in more.items() if open_ended or k in accepted}
        return _checked(predict(image.roi, write, config, **given), path, "predict")

    return forward_predict


def _checked(out: Any, path: Path, name: str) -> Array:
    if hasattr(out, "detach"):
        out = out.detach().cpu().numpy()
    if not isinstance(out, np.ndarray):
        raise ModelError(f"{path}: {name} gives a {type(out).__name__}: expected an array (channels, z, y, x)")
    return channels_first(out).astype(np.float32, copy=False)
