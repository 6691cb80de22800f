"""Models of numpy alone, with counted forwards, and servers of them."""

from __future__ import annotations

import numpy as np

from chunkloom import array_volume
from chunkloom.engine.cache import ChunkCache
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds import LoadedModel
from chunkloom.serving.served_model import ServedModel

RAW = np.random.default_rng(2).integers(0, 256, (21, 18, 23), np.uint8)


class Counted:
    """The mean of a 3 x 3 x 3 box, times each of `factors` (one channel each). Counts its forwards."""

    def __init__(self, factors=(1.0,)):
        self.factors = factors
        self.count = 0

    def __call__(self, block):
        self.count += 1
        windows = np.lib.stride_tricks.sliding_window_view(block[0], (3, 3, 3))
        mean = windows.mean((-3, -2, -1), dtype=np.float64)
        return np.stack([mean * f for f in self.factors]).astype(np.float32)


def whole(raw, factors=(1.0,), scale=255.0):
    """What `Counted` makes of a whole volume after division by `scale`, 0 outside."""
    padded = np.pad(raw / scale, 1)
    mean = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3)).mean((-3, -2, -1))
    return np.stack([mean * f for f in factors])


def toy_model(
    name="toy", forward=None, raw=RAW, voxel_size_nm=(8, 8, 8), corner_nm=(-4, -4, -4), version="1", **change
) -> ServedModel:
    """`Counted` in tiles of 8 x 8 x 8 over `raw`; `change` goes to the geometry."""
    forward = forward or Counted()
    given = {
        "input_voxel_size": (8, 8, 8),
        "output_voxel_size": (8, 8, 8),
        "input_shape": (10, 10, 10),
        "output_shape": (8, 8, 8),
        "output_channels": len(forward.factors),
        "channel_names": tuple(f"c{i}" for i in range(len(forward.factors))),
    }
    geometry = ModelGeometry(**{**given, **change})
    loaded = LoadedModel(name=name, geometry=geometry, forward=forward, device="cpu", version=version)
    runner = ModelRunner(loaded)
    probe = runner.warm_up()
    forward.count = 0
    source = array_volume(raw, voxel_size_nm=voxel_size_nm, corner_nm=corner_nm, chunk=(16, 16, 16))
    return ServedModel(runner, source, probe, predictions=ChunkCache(1 << 28))
