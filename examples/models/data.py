"""The data of a sample model: reading it, and drawing augmented tiles of it. It knows nothing of torch.

Arrays are z, y, x. Intensities are what the served model's chain makes of uint8: 0..255 to -1..1; what lies
outside the data is 0 in that range, as servers fill it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .recipes import Recipe, Triple

# How far a tile may reach over the volume's faces (at most half of it, so that it always holds some tissue): voxels
# beside them are then drawn about as often as others.
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
    return raw, recipe.target(labels)


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
    stretched: float = 0.0

    @property
    def alike(self) -> list[int]:
        """The axes that look alike to the network: x, and those as large as x."""
        sizes = list(zip(self.tile, self.context, strict=True))
        return [axis for axis in range(3) if sizes[axis] == sizes[2]]

    @property
    def core(self) -> tuple[slice, ...]:
        """Where the target lies in a tile with its context."""
        return tuple(slice(c, c + t) for t, c in zip(self.tile, self.context, strict=True))

    @classmethod
    def of(cls, raw: np.ndarray, target: np.ndarray, context: Triple, recipe: Recipe) -> TileSource:
        """A source of the recipe's tiles of target, with `context` voxels more of raw on each side."""
        margin = [(c + min(OVERHANG, t // 2),) * 2 for c, t in zip(context, recipe.tile, strict=True)]
        return cls(
            np.pad(raw.astype(np.float32) / 255, margin, mode="reflect"),
            np.pad(target, margin, mode="reflect"),
            np.pad(np.ones(raw.shape, bool), margin),
            context,
            recipe.tile,
            recipe.stretched,
        )

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One augmented tile: the input (with its context), the target, and the weight of each voxel; float32."""
        starts = [
            rng.integers(n - t - 2 * c + 1) for n, t, c in zip(self.raw.shape, self.tile, self.context, strict=True)
        ]
        out_of_shape = self.stretched > 0 and rng.random() < self.stretched
        cut = self.sheared(starts, rng) if out_of_shape else self.straight(starts)
        raw, inside, target = turned(cut, self.alike, rng)
        weight = inside[self.core]
        data = with_other_intensities(raw, rng) * 2 - 1
        # Half the tiles see the volume's faces as servers show them, half see more tissue there.
        if rng.random() < 0.5:
            data = np.where(inside, data, 0)
        else:
            weight = np.ones_like(weight)
        return tuple(np.ascontiguousarray(a, dtype=np.float32) for a in (data, target, weight))

    def straight(self, starts: list[int]) -> list[np.ndarray]:
        """Raw and inside with context, and target, of the tile that begins at `starts`."""
        boxes = list(zip(starts, self.tile, self.context, strict=True))
        wide = tuple(slice(s, s + t + 2 * c) for s, t, c in boxes)
        narrow = tuple(slice(s + c, s + c + t) for s, t, c in boxes)
        return [self.raw[wide], self.inside[wide], self.target[narrow]]

    def sheared(self, starts: list[int], rng: np.random.Generator) -> list[np.ndarray]:
        """As `straight`, of tissue stretched and sheared by up to 12 % about the tile's centre."""
        from scipy.ndimage import affine_transform

        among_alike = np.isin(np.arange(3), self.alike)
        matrix = np.eye(3) + rng.uniform(-0.12, 0.12, (3, 3)) * np.outer(among_alike, among_alike)
        size = np.array(self.tile) + 2 * np.array(self.context)
        centre = (size - 1) / 2
        offset = np.array(starts) + centre - matrix @ centre
        wide = {"matrix": matrix, "offset": offset, "output_shape": tuple(size)}
        narrow = {"matrix": matrix, "offset": offset + matrix @ self.context, "output_shape": self.tile}
        return [
            affine_transform(self.raw, order=1, mode="mirror", **wide),
            affine_transform(self.inside.astype(np.uint8), order=0, mode="constant", **wide) > 0,
            affine_transform(self.target.astype(np.float32), order=1, mode="mirror", **narrow) >= 0.5,
        ]


def turned(arrays: list[np.ndarray], alike: list[int], rng: np.random.Generator) -> list[np.ndarray]:
    """All arrays flipped, and turned by right angles in every plane of two axes that are `alike`; all the same way."""
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
