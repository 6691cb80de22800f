"""`ImageDataInterface` against numpy and scipy on whole arrays, and its public surface, literally."""

from __future__ import annotations

import inspect
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import tensorstore
from scipy.ndimage import map_coordinates

from chunkloom.chain.normalizers import LambdaNormalizer, MinMaxNormalizer
from chunkloom.chain.process import process_chain
from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import ParameterError
from chunkloom.geometry import Roi
from chunkloom.inference.imagedata import ImageDataInterface

RNG = np.random.default_rng(3)
NORMS = [MinMaxNormalizer(), LambdaNormalizer("x*2-1")]


def stored(folder, array, voxel=(10.48, 10.48, 10.48), corner=(-2.62, -2.62, -2.62)):
    """An array as funlib writes it: corner in nm, voxel size in nm."""
    path = folder / "raw.zarr" / "em"
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}
    metadata = {"shape": array.shape, "chunks": [8, 8, 8], "dtype": array.dtype.str}
    tensorstore.open({**spec, "metadata": metadata}, create=True).result().write(array).result()
    import json

    (path / ".zattrs").write_text(json.dumps({"resolution": voxel, "offset": corner}))
    return path


@pytest.fixture
def array():
    return RNG.integers(0, 255, (13, 17, 21)).astype(np.uint8)


def test_place_is_real_numbers(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array))
    assert data.voxel_size == data.actual_voxel_size == (10.48, 10.48, 10.48)
    assert data.offset == (-2.62, -2.62, -2.62)
    assert data.shape == (13, 17, 21)
    assert data.roi.shape == pytest.approx((136.24, 178.16, 220.08), rel=1e-12)
    assert data.axes_names == ("z", "y", "x")
    assert not data.resampled


def test_a_region_is_normalized_inside_and_0_outside(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array, (8, 8, 8), (-4, -4, -4)), input_norms=NORMS)
    padded = np.pad(array.astype(np.float32) / 255 * 2 - 1, 5)
    found = data.to_ndarray_ts(Roi((-4 - 24, -4 + 16, -4 + 80), (80, 160, 128)))
    expected = padded[5 - 3 : 5 - 3 + 10, 5 + 2 : 5 + 2 + 20, 5 + 10 : 5 + 10 + 16]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.dtype == np.float32


def test_a_region_wholly_outside_is_0(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array), input_norms=NORMS)
    found = data.to_ndarray_ts(Roi((9000, 0, 0), (10.48 * 3, 10.48 * 4, 10.48 * 5)))
    assert found.shape == (3, 4, 5)
    assert not found.any()


def test_regions_just_below_a_fractional_voxel_read_from_it(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array), normalize=False)
    for i in range(12):
        begin = [data.offset[0] + i * 10.48, *data.offset[1:]]
        found = data.to_ndarray_ts(Roi(begin, (10.48, 10.48 * 17, 10.48 * 21)))
        np.testing.assert_array_equal(found, array[i : i + 1])


def test_regions_of_another_library_are_taken(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array, (8, 8, 8), (0, 0, 0)), normalize=False)
    foreign = SimpleNamespace(offset=(8, 16, 24), shape=(32, 40, 48))
    np.testing.assert_array_equal(data.to_ndarray_ts(foreign), array[1:5, 2:7, 3:9])


def test_without_normalizers_of_its_own_it_follows_the_chain_of_the_process(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array))
    before = process_chain().spec
    try:
        process_chain().set(PipelineSpec.from_steps([MinMaxNormalizer(0, 100)], []))
        np.testing.assert_allclose(data.to_ndarray_ts(), np.clip(array / 100, 0, 1), atol=1e-6)
        np.testing.assert_array_equal(data.with_input_norms([]).to_ndarray_ts(), array)
    finally:
        process_chain().set(before)


def test_another_voxel_size_relabels_with_a_warning(tmp_path, array):
    path = stored(tmp_path, array, (8, 8, 8), (-4, -4, -4))
    with pytest.warns(UserWarning, match="as if of 16 x 16 x 16 nm"):
        data = ImageDataInterface(path, 16, normalize=False)
    assert (data.voxel_size, data.actual_voxel_size, data.offset) == ((16,) * 3, (8,) * 3, (-8,) * 3)
    np.testing.assert_array_equal(data.to_ndarray_ts(), array)


def resampled_by_scipy(array, factor):
    """Axis by axis on the whole array: means of whole factors, else linear at the new centres."""
    out = array.astype(float)
    for axis, f in enumerate(factor):
        n = int(np.ceil(round(out.shape[axis] / f, 9)))
        if float(f).is_integer():
            f = int(f)
            out = np.stack(
                [np.take(out, range(i * f, min((i + 1) * f, out.shape[axis])), axis).mean(axis) for i in range(n)], axis
            )
            continue
        shape = list(out.shape)
        shape[axis] = n
        at = np.indices(shape).astype(float)
        at[axis] = (at[axis] + 0.5) * f - 0.5
        out = map_coordinates(out, at, order=1, mode="nearest")
    return out


@pytest.mark.parametrize("factor", [(2, 2, 2), (1, 3, 1.5), (1.25, 1.25, 1.25), (0.5, 1, 1)], ids=str)
def test_resampled_voxels_are_those_of_the_whole_whatever_the_region(tmp_path, array, factor):
    path = stored(tmp_path, array, (8, 8, 8), (-4, -4, -4))
    size = tuple(8 * f for f in factor)
    data = ImageDataInterface(path, size, normalize=False, on_voxel_size_mismatch="resample")
    expected = resampled_by_scipy(array, factor)
    whole = data.to_ndarray_ts()
    assert data.resampled
    assert data.offset == (-4, -4, -4)
    assert whole.shape == expected.shape == data.shape
    assert np.abs(whole - expected).max() <= 0.5 + 1e-9
    assert whole.dtype == np.uint8
    part = data.to_ndarray_ts(Roi([-4 + 2 * v for v in size], [4 * v for v in size]))
    np.testing.assert_array_equal(part, whole[2:6, 2:6, 2:6])


def test_labels_take_the_nearest(tmp_path):
    ids = RNG.integers(0, 2**60, (8, 8, 8)).astype(np.uint64)
    data = ImageDataInterface(
        stored(tmp_path, ids, (8, 8, 8)), (16, 16, 24), normalize=False, on_voxel_size_mismatch="resample"
    )
    np.testing.assert_array_equal(data.to_ndarray_ts(), ids[1::2, 1::2, [1, 4, 7]])


@pytest.mark.parametrize(("name", "value"), [("output_voxel_size", 8), ("custom_fill_value", 7)])
def test_deprecated_arguments_work_and_warn(tmp_path, array, name, value):
    path = stored(tmp_path, array, (8, 8, 8))
    with pytest.warns(DeprecationWarning, match=name):
        ImageDataInterface(path, **{name: value})


@pytest.mark.parametrize("fill", [7, "edge"])
def test_the_older_fill_value_is_what_lies_outside(tmp_path, array, fill):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        data = ImageDataInterface(
            stored(tmp_path, array, (8, 8, 8), (0, 0, 0)), normalize=False, custom_fill_value=fill
        )
    mode = {"mode": "edge"} if fill == "edge" else {"constant_values": fill}
    found = data.to_ndarray_ts(data.roi.grow(16, 16))
    np.testing.assert_array_equal(found, np.pad(array, 2, **mode))


def test_an_unknown_way_of_fitting_is_refused(tmp_path, array):
    with pytest.raises(ParameterError, match="relabel"):
        ImageDataInterface(stored(tmp_path, array), on_voxel_size_mismatch="stretch")


def test_the_tensorstore_holds_the_levels_own_voxels(tmp_path, array):
    data = ImageDataInterface(stored(tmp_path, array), input_norms=NORMS)
    np.testing.assert_array_equal(np.asarray(data.ts[...].read().result()), array)


def test_public_surface():
    names = sorted(name for name in dir(ImageDataInterface) if not name.startswith("_"))
    assert names == [
        "input_norms",
        "offset",
        "resampled",
        "roi",
        "to_ndarray_ts",
        "ts",
        "voxel_size",
        "with_input_norms",
    ]
    assert list(inspect.signature(ImageDataInterface).parameters) == [
        "dataset_path",
        "voxel_size",
        "normalize",
        "input_norms",
        "on_voxel_size_mismatch",
        "concurrency_limit",
        "output_voxel_size",
        "custom_fill_value",
    ]
