"""A block through normalizers, model and postprocessors, and several models' predictions as one volume."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorstore

from chunkloom import array_volume
from chunkloom.chain.normalizers import MinMaxNormalizer
from chunkloom.chain.postprocessors import ThresholdPostprocessor
from chunkloom.errors import ParameterError
from chunkloom.geometry import Roi
from chunkloom.inference.imagedata import ImageDataInterface
from chunkloom.inference.inferencer import Inferencer
from chunkloom.inference.merged import merged
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds import LoadedModel

ARRAY = np.random.default_rng(7).integers(0, 255, (12, 12, 12)).astype(np.uint8)


def test_a_block_is_read_with_context_predicted_and_postprocessed(tmp_path):
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(tmp_path / "a.zarr" / "em")}}
    metadata = {"shape": [12, 12, 12], "chunks": [8, 8, 8], "dtype": "|u1"}
    tensorstore.open({**spec, "metadata": metadata}, create=True).result().write(ARRAY).result()
    attributes = {"resolution": [5.24] * 3, "offset": [-2.62] * 3}
    (tmp_path / "a.zarr" / "em" / ".zattrs").write_text(json.dumps(attributes))
    geometry = ModelGeometry((5.24,) * 3, (5.24,) * 3, (6, 6, 6), (4, 4, 4))
    # Of the voxels around each, the one before on every axis.
    model = LoadedModel("shift", geometry, lambda block: block[:, :4, :4, :4].copy(), "cpu", "1")
    idi = ImageDataInterface(tmp_path / "a.zarr" / "em", input_norms=[MinMaxNormalizer()])
    made = Inferencer(ModelRunner(model), [ThresholdPostprocessor(0.5)])
    whole = np.pad(ARRAY / np.float32(255) > 0.5, 1)
    for index in [(0, 0, 0), (1, 2, 0), (2, 2, 2)]:
        roi = Roi([-2.62 + i * 4 * 5.24 for i in index], (4 * 5.24,) * 3)
        expected = whole[tuple(slice(4 * i, 4 * i + 4) for i in index)]
        np.testing.assert_array_equal(made.process_chunk(idi, roi)[0], expected)


@pytest.mark.parametrize(("mode", "function"), [("and", np.min), ("or", np.max), ("sum", np.mean)])
def test_merged_volumes(mode, function):
    arrays = [ARRAY.astype(np.float32), ARRAY[::-1].astype(np.float32)]
    made = merged([array_volume(a, voxel_size_nm=(8, 8, 8)) for a in arrays], mode)
    np.testing.assert_array_equal(made.read(), function(arrays, 0))


def test_volumes_of_another_place_are_not_merged():
    with pytest.raises(ParameterError, match="place"):
        merged([array_volume(ARRAY), array_volume(ARRAY, corner_nm=(1, 0, 0))])
