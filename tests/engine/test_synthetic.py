from __future__ import annotations

import hashlib
import time

import numpy as np
import pytest

from chunkloom import Box, open_volume
from chunkloom.engine.demand import UNCLAIMED, Work
from chunkloom.engine.sources.synthetic import CUBE, open_synthetic
from chunkloom.errors import CancelledWorkError, ParameterError

LARGE = "shape=4096,4096,4096"


def block_mean(array: np.ndarray, factor: int) -> np.ndarray:
    z, y, x = (n // factor for n in array.shape)
    return array.reshape(z, factor, y, factor, x, factor).mean(axis=(1, 3, 5))


def face_voxels(ids: np.ndarray) -> np.ndarray:
    """Voxels with another id on any of their six sides."""
    faces = np.zeros(ids.shape, bool)
    for axis in range(3):
        moved = np.moveaxis(ids, axis, 0)
        here = np.moveaxis(faces, axis, 0)
        differs = moved[1:] != moved[:-1]
        here[1:] |= differs
        here[:-1] |= differs
    return faces


@pytest.fixture(scope="module")
def em() -> np.ndarray:
    return open_synthetic("synthetic://em").read(((128, 320), (128, 320), (128, 320)))


# What there is


@pytest.mark.parametrize(
    ("path", "kind", "dtype", "shapes"),
    [
        ("synthetic://em", "image", "uint8", [(512,) * 3, (256,) * 3, (128,) * 3, (64,) * 3]),
        ("synthetic://cells", "labels", "uint64", [(512,) * 3, (256,) * 3, (128,) * 3, (64,) * 3]),
        ("synthetic://cube", "image", "uint8", [(128,) * 3, (64,) * 3]),
        ("synthetic://em?shape=65,20,130", "image", "uint8", [(65, 20, 130), (33, 10, 65), (17, 5, 33)]),
        ("synthetic://em?shape=20,20,20", "image", "uint8", [(20, 20, 20)]),
        ("synthetic://em?shape=300,300,300&levels=2", "image", "uint8", [(300,) * 3, (150,) * 3]),
        ("synthetic://em?shape=5,3,1&levels=4", "image", "uint8", [(5, 3, 1), (3, 2, 1), (2, 1, 1), (1, 1, 1)]),
    ],
)
def test_levels_halve_down_to_one_chunk_or_as_many_as_asked_for(path, kind, dtype, shapes):
    volume = open_synthetic(path)
    assert (volume.kind, [level.shape for level in volume.levels]) == (kind, shapes)
    assert {level.dtype for level in volume.levels} == {np.dtype(dtype)}
    assert {level.chunk_shape for level in volume.levels} == {(64, 64, 64)}
    coarsest = volume.read(level=len(shapes) - 1)
    assert (coarsest.shape, coarsest.dtype) == (shapes[-1], np.dtype(dtype))


def test_every_level_has_the_same_corner_and_real_voxel_sizes():
    volume = open_synthetic("synthetic://em?voxel=8,3.24,3.24&corner=-2.62,0.5,1e3")
    assert [level.grid.corner_nm for level in volume.levels] == [(-2.62, 0.5, 1000.0)] * 4
    assert volume.levels[2].grid.voxel_size_nm == (32.0, 12.96, 12.96)


def test_open_volume_opens_synthetic_paths():
    assert open_volume("synthetic://cells").digest == open_synthetic("synthetic://cells").digest


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("synthetic://emm", "did you mean 'em'"),
        ("synthetic://", "known: cells, cube, em"),
        ("synthetic://em?shap=1,1,1", "did you mean 'shape'"),
        ("synthetic://cube?seed=2", "no parameter 'seed'"),
        ("synthetic://em?shape=512", "three numbers"),
        ("synthetic://em?shape=512,512,0", "whole number from 1"),
        ("synthetic://em?shape=512,512,1e3", "whole number from 1"),
        ("synthetic://em?shape=512,512,9999999", "to 524288"),
        ("synthetic://em?voxel=10,10,0", "above 0"),
        ("synthetic://em?voxel=10,10,ten", "three numbers of nm"),
        ("synthetic://em?corner=0,0,inf", "finite"),
        ("synthetic://em?seed=-1", "whole number from 0"),
        ("synthetic://em?shape=64,64,64&levels=9", "from 1 to 7"),
        ("synthetic://em?levels=0", "whole number from 1"),
        ("synthetic://em?seed=1&seed=2", "given once"),
        ("synthetic://em?seed", "seed=value"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(path, message):
    with pytest.raises(ParameterError, match=message) as caught:
        open_synthetic(path)
    assert path in str(caught.value)


def test_every_parameter_changes_the_digest():
    paths = [
        "em",
        "cells",
        "cube",
        "em?seed=2",
        "em?shape=512,512,513",
        "em?voxel=10,10,10.5",
        "em?corner=0,0,1",
        "em?levels=3",
    ]
    volumes = [open_synthetic(f"synthetic://{path}") for path in paths]
    assert len({volume.stage_digest for volume in volumes}) == len(paths)
    assert len({volume.digest for volume in volumes}) == len(paths)


def test_the_same_path_has_the_same_digest():
    path = "synthetic://em?seed=3&shape=128,128,128"
    assert open_synthetic(path).digest == open_synthetic(path).digest
    assert open_synthetic("synthetic://em?seed=1").digest == open_synthetic("synthetic://em").digest


# The same voxels whatever is asked for


@pytest.mark.parametrize("level", range(7))
@pytest.mark.parametrize("name", ["em", "cells"])
def test_any_box_is_the_crop_of_a_larger_one(name, level):
    volume = open_synthetic(f"synthetic://{name}?{LARGE}")
    rng = np.random.default_rng(level)
    shape = np.array((75, 60, 70))
    room = np.array(volume.levels[level].shape) - shape
    lo = np.maximum(0, room * (0.3, 0.6, 1.0)).astype(int)
    hi = np.minimum(lo + shape, volume.levels[level].shape)
    whole = volume.read(list(zip(lo, hi, strict=True)), level)
    for _ in range(4):
        a = [int(rng.integers(b, h)) for b, h in zip(lo, hi, strict=True)]
        b = [int(rng.integers(begin, min(begin + 30, h))) + 1 for begin, h in zip(a, hi, strict=True)]
        box = Box(tuple(a), tuple(b))
        np.testing.assert_array_equal(volume.read_box(level, box, UNCLAIMED), whole[box.slices([int(n) for n in lo])])


@pytest.mark.parametrize("name", ["em", "cells"])
def test_the_tissue_is_the_same_at_every_shape_voxel_size_and_corner(name):
    box = ((30, 50), (60, 70), (5, 25))
    small = open_synthetic(f"synthetic://{name}?shape=70,70,70&voxel=4,4,4&corner=7,0,0")
    np.testing.assert_array_equal(small.read(box), open_synthetic(f"synthetic://{name}?{LARGE}").read(box))


def test_another_seed_is_other_tissue():
    box = ((0, 64), (0, 64), (0, 64))
    one, two = (open_synthetic(f"synthetic://em?seed={seed}").read(box).astype(float) for seed in (1, 2))
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.2


def test_the_bytes_are_these():
    """Where this fails, the generator makes other voxels than it did, and its VERSION has to be raised."""
    digest = hashlib.sha256()
    for name in ("em", "cells"):
        volume = open_synthetic(f"synthetic://{name}?{LARGE}")
        for level in range(7):
            digest.update(volume.read(((9, 41), (20, 45), (30, 60)), level).tobytes())
    assert digest.hexdigest()[:16] == "bb7a6ee22f7720f8"


def test_a_read_is_a_fresh_array():
    volume = open_synthetic("synthetic://cube")
    box = Box((40, 48, 56), (50, 58, 66))
    volume.read_box(0, box, UNCLAIMED)[:] = 0
    assert (volume.read_box(0, box, UNCLAIMED) == 220).all()


def test_a_read_stops_when_nobody_waits_any_more():
    class Unwanted(Work):
        def check(self) -> None:
            raise CancelledWorkError("nobody waits")

    volume = open_synthetic("synthetic://em")
    with pytest.raises(CancelledWorkError):
        volume.read_box(0, volume.levels[0].box, Unwanted())


# What it looks like


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_coarse_level_is_about_the_mean_of_the_finest(em, level):
    coarse = open_synthetic("synthetic://em").read([(128 >> level, 320 >> level)] * 3, level).astype(float)
    mean = block_mean(em, 1 << level)
    assert np.corrcoef(coarse.ravel(), mean.ravel())[0, 1] > 0.9
    assert abs(coarse.mean() - mean.mean()) < 4
    assert abs(coarse.std() / mean.std() - 1) < 0.12


@pytest.mark.parametrize(("level", "least"), [(4, 0.87), (5, 0.85), (6, 0.9)])
def test_the_levels_from_afar_are_about_the_mean_of_the_level_before(level, least):
    volume = open_synthetic(f"synthetic://em?{LARGE}")
    n = 96 if level < 6 else 128
    mean = block_mean(volume.read([(0, n)] * 3, level - 1), 2)
    coarse = volume.read([(0, n // 2)] * 3, level).astype(float)
    assert np.corrcoef(coarse.ravel(), mean.ravel())[0, 1] > least
    assert abs(coarse.mean() - mean.mean()) < 4


def test_grey_levels_are_those_of_real_tissue(em, shared):
    import zarr

    real = np.asarray(zarr.open_array(str(shared / "data" / "fibsem.zarr" / "raw" / "s0"), mode="r")[:])
    assert abs(em.mean() - real.mean()) < 12
    assert abs(em.std() - real.std()) < 6
    # How alike neighbours at 1, 4 and 8 voxels are: the size of what is seen.
    for step in (1, 4, 8):
        a, b = (
            np.corrcoef(array[..., step:].ravel(), array[..., :-step].ravel())[0, 1]
            for array in (em.astype(float), real.astype(float))
        )
        assert abs(a - b) < 0.1


@pytest.mark.parametrize("level", [0, 1])
def test_faces_between_cells_are_dark(level):
    box = [(40, 120)] * 3
    grey = open_synthetic("synthetic://em").read(box, level)
    faces = face_voxels(open_synthetic("synthetic://cells").read(box, level))
    assert grey[faces].mean() < grey[~faces].mean() - 60
    assert np.quantile(grey[faces], 0.95) < 165


def test_cells_are_about_forty_voxels_wide_and_varied():
    ids = open_synthetic("synthetic://cells").read([(0, 256)] * 3, 0)
    border = np.unique(np.concatenate([np.ravel(np.take(ids, i, axis)) for axis in range(3) for i in (0, 255)]))
    found, sizes = np.unique(ids, return_counts=True)
    assert found.dtype == np.uint64
    assert found.min() > 0
    widths = np.cbrt(6 / np.pi * sizes[~np.isin(found, border)])
    assert 34 < np.cbrt((widths**3).mean()) < 46
    assert widths.std() > 5


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_coarse_cells_are_the_fine_ones_at_the_same_place(level):
    volume = open_synthetic(f"synthetic://cells?{LARGE}")
    lo, n = 1024, 160
    fine = volume.read([(lo, lo + n)] * 3)
    half = (1 << level) // 2
    coarse = volume.read([(lo >> level, (lo + n) >> level)] * 3, level)
    at_centre = fine[half :: 1 << level, half :: 1 << level, half :: 1 << level]
    assert (coarse == at_centre).mean() > 0.9


def test_the_far_corner_of_a_large_volume_is_made_at_once():
    begin = time.perf_counter()
    volume = open_synthetic(f"synthetic://em?{LARGE}")
    assert time.perf_counter() - begin < 0.5
    for level in range(len(volume.levels)):
        end = volume.levels[level].shape[0]
        begin = time.process_time()
        volume.read([(end - 64, end)] * 3, level)
        assert time.process_time() - begin < 1.0


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_cube_is_where_it_is_said_to_be(level):
    expected = np.full((128, 128, 128), 30.0)
    expected[CUBE.slices()] = 220
    assert Box((40, 48, 56), (80, 96, 88)) == CUBE
    volume = open_synthetic("synthetic://cube?levels=4")
    np.testing.assert_array_equal(volume.read(level=level), np.rint(block_mean(expected, 1 << level)))
