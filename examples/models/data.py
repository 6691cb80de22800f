"""The data of a sample model: reading it, and drawing augmented tiles of it. It knows nothing of torch.

Arrays are z, y, x. Intensities are what the served model's chain makes of uint8: 0..255 to -1..1; what lies
outside the data is 0 in that range, as servers fill it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .recipes import Recipe, Triple, boundaries

# How far a tile may reach over the volume's faces: voxels beside them are then drawn about as often as others.
OVERHANG = 12


def read_array(path: Path) -> np.ndarray:
    """A whole zarr v2 array, as it is stored."""
    import tensorstore

    if not (path / ".zarray").is_file():
        raise SystemExit(f"{path}: expected a zarr v2 array, found no .zarray there; --data names the data set")
    store = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}).result()
    return np.asarray(store.read().result())


def read_volume(data: Path, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """The raw data (uint8) and the target (bool) of the whole volume."""
    raw, labels = read_array(data / recipe.raw), read_array(data / recipe.labels)
    if raw.shape != labels.shape:
        raise SystemExit(f"{data}: {recipe.raw} is {raw.shape}, {recipe.labels} is {labels.shape}: expected the same")
    return raw, boundaries(labels)


def normalized(raw: np.ndarray) -> np.ndarray:
    """What MinMaxNormalizer(0, 255) and LambdaNormalizer(x*2-1) make of `raw`: float32 in -1..1."""
    return np.clip(raw.astype(np.float32) / 255, 0, 1) * 2 - 1


@dataclass(frozen=True)
class TileSource:
    """Tiles of a training volume, which is held mirrored at its faces: `raw` in 0..1, `target`, and `inside`."""

    raw: np.ndarray
    target: np.ndarray
    inside: np.ndarray
    context: Triple
    tile: Triple

    @classmethod
    def of(cls, raw: np.ndarray, target: np.ndarray, context: Triple, tile: Triple) -> TileSource:
        """A source of tiles with `tile` voxels of target each, and `context` voxels more of raw on each side."""
        margin = [(c + OVERHANG, c + OVERHANG) for c in context]
        return cls(
            np.pad(raw.astype(np.float32) / 255, margin, mode="reflect"),
            np.pad(target, margin, mode="reflect"),
            np.pad(np.ones(raw.shape, bool), margin),
            context,
            tile,
        )

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One augmented tile: the input (with its context), the target, and the weight of each voxel; float32."""
        starts = [
            rng.integers(n - t - 2 * c + 1) for n, t, c in zip(self.raw.shape, self.tile, self.context, strict=True)
        ]
        boxes = list(zip(starts, self.tile, self.context, strict=True))
        wide = tuple(slice(s, s + t + 2 * c) for s, t, c in boxes)
        narrow = tuple(slice(s + c, s + c + t) for s, t, c in boxes)
        arrays = [self.raw[wide], self.inside[wide], self.target[narrow], self.inside[narrow]]
        raw, inside, target, weight = turned(arrays, self.tile, self.context, rng)
        data = with_other_intensities(raw, rng) * 2 - 1
        # Half the tiles see the volume's faces as servers show them, half see more tissue there.
        if rng.random() < 0.5:
            data = np.where(inside, data, 0)
        else:
            weight = np.ones_like(weight)
        return tuple(np.ascontiguousarray(a, dtype=np.float32) for a in (data, target, weight))


def turned(arrays: list[np.ndarray], tile: Triple, context: Triple, rng: np.random.Generator) -> list[np.ndarray]:
    """All arrays flipped and turned alike, by right angles in every plane whose two axes look alike to the network."""
    alike = [axis for axis in range(3) if (tile[axis], context[axis]) == (tile[2], context[2])]
    order = np.arange(3)
    order[alike] = rng.permutation(alike)
    flips = tuple(np.flatnonzero(rng.integers(0, 2, 3)))
    return [np.flip(a.transpose(order), flips) for a in arrays]


def with_other_intensities(raw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`raw` (0..1) as another microscope might have shown it: blur, gamma, gain, offset, noise; clipped to 0..1."""
    from scipy.ndimage import gaussian_filter

    if rng.random() < 0.3:
        raw = gaussian_filter(raw, rng.uniform(0.3, 0.9))
    if rng.random() < 0.5:
        raw = raw ** np.exp(rng.uniform(-0.5, 0.5))
    gain, offset = np.exp(rng.uniform(-0.8, 0.35)), rng.uniform(-0.25, 0.25)
    noise = rng.standard_normal(raw.shape, dtype=np.float32) * rng.uniform(0, 0.1)
    return np.clip((raw - 0.5) * gain + 0.5 + offset + noise, 0, 1)
