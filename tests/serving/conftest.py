"""Real servers, and readers that open what they serve."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from chunkloom.engine.demand import Scheduler
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer


@pytest.fixture
def serve():
    """Serve volumes by name on a free port: ``serve({"a": volume}) -> VolumeServer``."""
    with contextlib.ExitStack() as stack:

        def start(volumes, **options):
            scheduler = Scheduler(2)
            stack.callback(scheduler.close)
            return stack.enter_context(VolumeServer(create_app(volumes, scheduler=scheduler, **options)))

        yield start


def read_with_zarr(url: str) -> np.ndarray:
    """The array at `url` by zarr-python."""
    import zarr

    return np.asarray(zarr.open_array(url, mode="r")[...])


def read_with_tensorstore(url: str, word: str) -> np.ndarray:
    """The array at `url` by tensorstore."""
    import tensorstore as ts

    if word == "precomputed":
        base, _, scale = url.rpartition("/")
        spec = {"driver": "neuroglancer_precomputed", "kvstore": base + "/", "scale_index": int(scale[1:])}
        array = ts.open(spec, open=True).result().read().result().transpose()
        return array[0] if array.shape[0] == 1 else array
    driver = {"zarr2": "zarr", "zarr3": "zarr3", "n5": "n5"}[word]
    array = ts.open({"driver": driver, "kvstore": url.rstrip("/") + "/"}, open=True).result().read().result()
    return array.transpose() if word == "n5" else array


READERS = {"zarr-python": lambda url, word: read_with_zarr(url), "tensorstore": read_with_tensorstore}
