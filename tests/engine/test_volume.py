from __future__ import annotations

import numpy as np
import pytest

from chunkloom import Box, array_volume
from chunkloom.errors import ParameterError


def ramp(shape: tuple[int, ...], dtype: str = "uint16") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def test_an_array_reads_back_whole():
    array = ramp((5, 6, 7))
    assert np.array_equal(array_volume(array).read(), array)


def test_a_read_array_is_the_readers_own():
    volume = array_volume(ramp((5, 6, 7)))
    volume.read()[:] = 0
    assert volume.read().max() == 5 * 6 * 7 - 1


def test_later_changes_of_the_array_do_not_show():
    array = ramp((5, 6, 7))
    volume = array_volume(array)
    array[:] = 0
    assert volume.read().max() > 0


def test_a_box_reads_its_voxels():
    array = ramp((5, 6, 7))
    volume = array_volume(array)
    assert np.array_equal(volume.read(Box((1, 2, 3), (4, 6, 5))), array[1:4, 2:6, 3:5])
    assert np.array_equal(volume.read(((1, 4), (2, 6), (3, 5))), array[1:4, 2:6, 3:5])


def test_axes_are_put_in_order_with_channels_first():
    array = ramp((5, 6, 7, 2))
    volume = array_volume(array, axes=("x", "y", "z", "c"))
    assert volume.levels[0].axes == ("c", "z", "y", "x")
    assert np.array_equal(volume.read(), array.transpose(3, 2, 1, 0))


def test_big_endian_arrays_read_in_native_order():
    array = ramp((3, 4, 5), ">u4")
    read = array_volume(array).read()
    assert read.dtype.isnative
    assert np.array_equal(read, array)


def test_64_bit_ids_stay_exact():
    array = np.full((2, 2, 2), 2**63 + 12345, np.uint64)
    assert array_volume(array).read()[0, 0, 0] == 2**63 + 12345


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        (((0, 6), (0, 6), (0, 7)), "not inside"),
        (((-1, 3), (0, 6), (0, 7)), "not inside"),
        (((2, 2), (0, 6), (0, 7)), "not empty"),
        (((0, 2), (0, 6)), "expected 3"),
    ],
    ids=["past the end", "before the beginning", "empty", "two axes"],
)
def test_a_box_that_cannot_be_read_is_refused(box, reason):
    with pytest.raises(ParameterError, match=reason):
        array_volume(ramp((5, 6, 7))).read(box)


def test_a_level_that_is_not_there_is_refused_by_number():
    with pytest.raises(ParameterError, match=r"no level 1.*0 to 0"):
        array_volume(ramp((5, 6, 7))).read(level=1)


def test_a_read_larger_than_free_memory_is_refused_and_says_what_to_do():
    from chunkloom.engine.sources.synthetic import open_synthetic

    volume = open_synthetic("synthetic://em?shape=65536,65536,65536")
    with pytest.raises(ParameterError, match=r"GiB.*read a smaller box"):
        volume.read()


def test_the_digest_covers_values_and_place():
    array = ramp((5, 6, 7))
    digests = {
        array_volume(array).digest,
        array_volume(array + 1).digest,
        array_volume(array, voxel_size_nm=(1, 1, 2)).digest,
        array_volume(array, corner_nm=(0, 0, 0.5)).digest,
        array_volume(array, kind="labels").digest,
        array_volume(array, chunk=(4, 4, 4)).digest,
    }
    assert len(digests) == 6
    assert array_volume(array).digest == array_volume(array.copy()).digest
