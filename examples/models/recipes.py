"""What each sample model is trained on and how: one frozen record a model. It knows nothing of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Triple = tuple[int, int, int]
BOUNDARIES_ARE = (
    "The target is a boundary of the instances: voxels of id 0, and voxels with another id at one of their six faces\n"
    "(both sides)."
)


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


def marked(mask: np.ndarray) -> np.ndarray:
    """Voxels that are not 0."""
    return mask != 0


@dataclass(frozen=True)
class Recipe:
    """One sample model: its data, network, training and what its card says.

    `raw` and `labels` are arrays inside the data set; `target` makes a mask of the labels, and `target_is` says which.
    Training draws tiles of `tile` target voxels, `stretched` of them (0 to 1) out of shape; the model serves
    `output_shape`. Voxels with x at or beyond `held_out_x` are kept aside, and what the network would read beside
    them is not trained on. `folder` is where its files go, from the top of the repository.
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
    folder: str
    target: Callable[[np.ndarray], np.ndarray] = boundaries
    target_is: str = BOUNDARIES_ARE
    stretched: float = 0.0


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
            folder="src/chunkloom/models/bundled/fibsem-membrane",
        ),
        Recipe(
            name="vnc-membrane",
            channel="membrane",
            raw="raw/s0",
            labels="membranes/s0",
            voxel_size_nm=(50, 4.6, 4.6),
            # Sections are ten times as thick as a pixel: they are looked at one by one, and together where pixels
            # have become 18 nm.
            widths=(16, 48, 96),
            kernels=((1, 3, 3), (1, 3, 3), (3, 3, 3)),
            pools=((1, 2, 2),) * 2,
            tile=(6, 96, 96),
            output_shape=(10, 128, 128),
            held_out_x=768,
            steps=800,
            licence="CC-BY-NC-SA-3.0",
            source="ssTEM of the Drosophila larva ventral nerve cord: Stephan Gerhard, Jan Funke, Julien Martel, "
            "Albert Cardona, Richard Fetter, Segmented anisotropic ssTEM dataset of neural tissue, figshare 856713 "
            "(2013), CC BY-NC-SA 3.0",
            about="neuron membranes in anisotropic ssTEM of *Drosophila* nerve cord",
            limits="- The data's licence carries over to the weights: attribution as above, no commercial use, and "
            "what is made of\n  them under the same licence. For that reason it is no part of the installed package.\n"
            "- Trained on one piece (20 sections of 640 x 748 pixels) of one animal, one stain and one microscope. It "
            "is a\n  sample for anisotropic data, and a start for finetuning; it is not a segmentation product.\n"
            "- Other section thicknesses and pixel sizes, and isotropic data, are outside what it knows.",
            folder="examples/models/vnc-membrane",
            target=marked,
            target_is="""The target is the data set's own mask of membranes, drawn by hand section by section.""",
            stretched=0.4,
        ),
    ]
}
