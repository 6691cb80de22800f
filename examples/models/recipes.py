"""What each sample model is trained on and how: one frozen record a model. It knows nothing of torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Triple = tuple[int, int, int]


def boundaries(ids: np.ndarray) -> np.ndarray:
    """Voxels (z, y, x bool) of id 0, or with another id at one of their six faces: both sides of each boundary."""
    found = ids == 0
    for axis in range(ids.ndim):
        here, there = [slice(None)] * ids.ndim, [slice(None)] * ids.ndim
        here[axis], there[axis] = slice(None, -1), slice(1, None)
        differ = ids[tuple(here)] != ids[tuple(there)]
        found[tuple(here)] |= differ
        found[tuple(there)] |= differ
    return found


@dataclass(frozen=True)
class Recipe:
    """One sample model: its data, network, training and what its card says.

    `raw` and `labels` are arrays inside the data set; the target is where `boundaries` finds one. Training draws
    tiles of `tile` target voxels, the model serves `output_shape`. Voxels with
    x at or beyond `held_out_x` are kept aside, and what the network would read beside them is not trained on.
    """

    name: str
    channel: str
    raw: str
    labels: str
    voxel_size_nm: tuple[float, float, float]
    widths: tuple[int, ...]
    kernels: tuple[Triple, ...]
    pools: tuple[Triple, ...]
    tile: Triple
    output_shape: Triple
    held_out_x: int
    steps: int
    licence: str
    source: str
    about: str
    limits: str


RECIPES = {
    recipe.name: recipe
    for recipe in [
        Recipe(
            name="fibsem-membrane",
            channel="membrane",
            raw="raw/s0",
            labels="neurons/s0",
            voxel_size_nm=(10, 10, 10),
            widths=(12, 28, 56),
            kernels=((3, 3, 3),) * 3,
            pools=((2, 2, 2),) * 2,
            tile=(48, 48, 48),
            output_shape=(64, 64, 64),
            held_out_x=150,
            steps=1800,
            licence="BSD-3-Clause",
            source="FIB-SEM of the Drosophila medulla: example data of gala (janelia-flyem/gala), "
            "BSD-style licence, copyright 2012 Howard Hughes Medical Institute",
            about="boundaries between neurons in isotropic FIB-SEM of *Drosophila* brain",
            limits="- Trained on one small piece (50 x 100 x 130 voxels) of one tissue and one microscope. It is a "
            "sample to see\n  chunkloom at work with, and a start for finetuning; it is not a segmentation "
            "product.\n- Other voxel sizes, section-based EM (anisotropic), inverted contrast and other stains "
            "are outside what it knows.\n- Membranes inside cells (mitochondria, ER) are not its target, and are "
            "sometimes found all the same.\n- The voxel size of 10 nm is not stated at the source of the data.",
        ),
    ]
}
