"""The shared cases that concern reading, geometry and missing chunks, each against its `expected.json`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkloom.errors import ChunkloomError
from chunkloom.geometry import Box
from chunkloom.io import list_levels, ome_translation, open_levels, read_array_meta
from chunkloom.io.inspect import describe

from .servers import FolderServer

ARRAY_CASES = [
    "n5-edge-blocks",
    "n5-multiscale-pixelresolution",
    "ngff04-double-transform",
    "ngff04-half-voxel-pyramid",
    "ngff05-tczyx-units",
    "precomputed-offset-cseg",
    "zarr2-big-endian",
    "zarr2-blosc-autoshuffle",
    "zarr2-delta-filter",
    "zarr2-f-order",
    "zarr2-fill-null",
    "zarr2-float16-bool",
    "zarr2-stale-consolidated",
    "zarr2-uint64-fill",
    "zarr2-zstd-checksum",
    "zarr3-keyenc-no-configuration",
]


def expected(shared: Path, case: str) -> dict[str, Any]:
    folder = shared / "cases" / case
    if not folder.is_dir():
        pytest.skip(f"case not found: no folder {folder}")
    return json.loads((folder / "expected.json").read_text())


def check_array(folder: Path, array: dict[str, Any], **options: Any) -> None:
    path = folder / array["path"]
    if "dimension_separator" not in options:
        meta = read_array_meta(path)
        assert list(meta.shape) == array["shape"]
        assert list(meta.axes) == array["axes"]
        assert meta.dtype.name == array["dtype"]
        if "voxel_size_nm" in array:
            assert meta.voxel_size_nm == pytest.approx(tuple(array["voxel_size_nm"]), rel=1e-12)
        if "corner_offset_nm" in array:
            assert meta.corner_nm == pytest.approx(tuple(array["corner_offset_nm"]), rel=1e-12)
        if "translation_nm" in array:
            centre = ome_translation(meta.corner_nm, meta.voxel_size_nm)
            assert centre == pytest.approx(tuple(array["translation_nm"]), rel=1e-12)
    described = describe(path, checksum=True, **options)
    assert described["levels"][0]["sha256"] == array["sha256_c_le"]
    opened = open_levels(path, **options).levels[0]
    voxels = opened.read(Box.of_shape(opened.meta.shape[-3:]))
    assert voxels.flags.c_contiguous
    assert voxels.dtype.isnative
    assert hashlib.sha256(voxels.astype(voxels.dtype.newbyteorder("<")).tobytes()).hexdigest() == array["sha256_c_le"]
    whole = voxels.reshape(array["shape"])
    for index, value in array.get("values", {}).items():
        assert whole[tuple(json.loads(index))].item() == value


@pytest.mark.parametrize("case", ARRAY_CASES)
def test_case_gives_its_array(shared: Path, case: str) -> None:
    wanted = expected(shared, case)
    for array in [wanted["array"], *wanted.get("also", [])]:
        check_array(shared / "cases" / case, array)


def test_half_voxel_pyramid_has_one_corner_on_all_levels(shared: Path) -> None:
    expected(shared, "ngff04-half-voxel-pyramid")
    fine, coarse = list_levels(shared / "cases" / "ngff04-half-voxel-pyramid" / "data.zarr")
    assert fine.corner_nm == coarse.corner_nm == (-4, -4, -4)
    ends = [
        fine.grid.box_to_world(Box.of_shape(fine.shape)).end,
        coarse.grid.box_to_world(Box.of_shape(coarse.shape)).end,
    ]
    assert ends[0] == ends[1]


def test_nested_chunks_without_separator_are_named(shared: Path) -> None:
    wanted = expected(shared, "zarr2-nested-no-separator")
    with pytest.raises(ChunkloomError) as caught:
        open_levels(shared / "cases" / "zarr2-nested-no-separator" / "data.zarr")
    for word in wanted["error"]["must_mention"]:
        assert word in str(caught.value)


def test_nested_chunks_are_read_with_the_separator_given(shared: Path) -> None:
    wanted = expected(shared, "zarr2-nested-no-separator")["if_user_forces_separator"]
    folder = shared / "cases" / "zarr2-nested-no-separator"
    check_array(folder, wanted["array"], dimension_separator=wanted["separator"])


def test_consolidated_metadata_hides_nothing(shared: Path) -> None:
    expected(shared, "zarr2-stale-consolidated")
    opened = open_levels(shared / "cases" / "zarr2-stale-consolidated" / "data.zarr")
    assert opened.levels[0].meta.path.endswith("/new")
    assert any("old" in warning for warning in opened.warnings)


@pytest.mark.parametrize("level", ["s0", "s1"])
def test_real_pyramid_is_placed_to_the_half_voxel(shared: Path, level: str) -> None:
    meta = read_array_meta(shared / "data" / "vnc.zarr" / "raw" / level)
    size = {"s0": (50, 4.6, 4.6), "s1": (50, 9.2, 9.2)}[level]
    np.testing.assert_allclose(meta.voxel_size_nm, size, rtol=1e-12)
    np.testing.assert_allclose(meta.corner_nm, (-25, -2.3, -2.3), rtol=1e-12)


def test_missing_chunks_over_http_follow_the_table(
    shared: Path, served: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of the table, as a client: fill for 403 and 404 alone, errors that name what was refused."""
    import tensorstore as ts
    import zarr

    from chunkloom.io import remote

    quick = ts.Context({"http_request_retries": {"max_retries": 1, "initial_delay": "1ms", "max_delay": "1ms"}})
    monkeypatch.setattr(remote, "context", lambda: quick)
    zarr.create_array(served.root / "s0", shape=(2, 2, 4), chunks=(2, 2, 2), dtype="u1", zarr_format=2, fill_value=7)[
        ...
    ] = 1
    upstream = {"connection reset": "reset", "200 text/html <!doctype html>...": "html"}
    for row in expected(shared, "http-missing-chunk")["as_client"]:
        served.faults = {row["get"]: upstream.get(row["upstream"], row["upstream"])}
        result = row["result"]
        if result.startswith("fill_value"):
            read = open_levels(f"{served.url}/s0").levels[0].read(Box.of_shape((2, 2, 4)))
            assert (read[..., 2:] == 7).all()
            assert (read[..., :2] == 1).all()
            continue
        with pytest.raises(ChunkloomError) as caught:
            open_levels(f"{served.url}/s0").levels[0].read(Box.of_shape((2, 2, 4)))
        assert "\n" not in str(caught.value)
        for word in row.get("must_mention", []):
            assert word in str(caught.value)
