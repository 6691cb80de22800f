"""Where voxels lie: every convention of attributes, with units, half voxels and levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chunkloom.errors import FormatError, VolumeNotFoundError
from chunkloom.io import list_levels, ome_corner, ome_translation, open_levels, read_array_meta
from chunkloom.io.units import nm_per, to_nm

ZARRAY = {
    "zarr_format": 2,
    "shape": [8, 8, 8],
    "chunks": [8, 8, 8],
    "dtype": "|u1",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
    "dimension_separator": "/",
}
N5 = {"dimensions": [8, 8, 8], "blockSize": [8, 8, 8], "dataType": "uint8", "compression": {"type": "raw"}}


def write(folder: Path, documents: dict[str, Any]) -> Path:
    for key, value in documents.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_text(json.dumps(value))
    return folder


def axes(*units: str | None) -> list[dict[str, str]]:
    return [{"name": n, "type": "space", **({"unit": u} if u else {})} for n, u in zip("zyx", units, strict=True)]


def multiscales(axes: Any, *datasets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"multiscales": [{"axes": axes, "datasets": list(datasets), "version": "0.4", **more}]}


def dataset(path: str, scale: list[float] | None, translation: list[float] | None = None) -> dict[str, Any]:
    transforms: list[dict[str, Any]] = []
    if scale:
        transforms.append({"type": "scale", "scale": scale})
    if translation:
        transforms.append({"type": "translation", "translation": translation})
    return {"path": path, "coordinateTransformations": transforms}


NM = axes("nanometer", "nanometer", "nanometer")


@pytest.mark.parametrize(
    ("unit", "nm"),
    [
        ("nanometer", 1),
        ("nm", 1),
        ("micrometer", 1000),
        ("um", 1000),
        ("µm", 1000),
        ("μm", 1000),
        ("micron", 1000),
        ("angstrom", 0.1),
        ("\u00c5", 0.1),
        ("\u212b", 0.1),
        ("millimeter", 1e6),
        ("meter", 1e9),
        ("picometer", 1e-3),
        ("inch", 2.54e7),
    ],
)
def test_unit_in_nm(unit: str, nm: float) -> None:
    assert nm_per(unit) == pytest.approx(nm, rel=1e-12)


@pytest.mark.parametrize("unit", ["", "pixel", "second", "furlong", "nano"])
def test_word_that_is_no_length_is_none(unit: str) -> None:
    assert nm_per(unit) is None


def test_conversion_adds_no_last_digits() -> None:
    assert to_nm(0.05, "um") == 50
    assert to_nm(0.00324, "micrometer") == 3.24
    assert to_nm(46, "angstrom") == 4.6


@pytest.mark.parametrize("scale", [8.0, 16.0, 32.0, 10.48])
def test_janelia_pyramids_begin_at_minus_4(scale: float) -> None:
    assert ome_corner([scale / 2 - 4], [scale]) == pytest.approx((-4,), rel=1e-12)


def test_corner_and_centre_are_inverse() -> None:
    for corner, scale in [(-2.3, 4.6), (0, 3.24), (-2.62, 10.48), (1e6 + 0.1, 0.3)]:
        assert ome_corner(ome_translation([corner], [scale]), [scale]) == pytest.approx((corner,), rel=1e-12)
    assert ome_corner([2.3], [9.2]) == (-2.3,)


def test_units_per_axis(tmp_path: Path) -> None:
    group = multiscales(axes("micrometer", "nanometer", "angstrom"), dataset("a", [0.04, 4, 40], [0.02, 2, 20]))
    meta = read_array_meta(write(tmp_path, {".zattrs": group, "a/.zarray": ZARRAY}))
    assert meta.voxel_size_nm == (40, 4, 4)
    assert meta.corner_nm == (0, 0, 0)
    assert meta.warnings == ()


@pytest.mark.parametrize(("unit", "word"), [(None, "no unit"), ("furlong", "unknown unit 'furlong'")])
def test_unit_missing_or_unknown_is_nm_with_a_warning(tmp_path: Path, unit: str | None, word: str) -> None:
    group = multiscales(axes("nanometer", unit, "nanometer"), dataset("a", [4, 4, 4]))
    opened = open_levels(write(tmp_path, {".zattrs": group, "a/.zarray": ZARRAY}))
    assert opened.levels[0].meta.voxel_size_nm == (4, 4, 4)
    assert any("axis y" in warning and word in warning for warning in opened.warnings)


def test_identity_and_repeated_transforms_compose(tmp_path: Path) -> None:
    level = {
        "path": "a",
        "coordinateTransformations": [
            {"type": "identity"},
            {"type": "scale", "scale": [2, 2, 2]},
            {"type": "translation", "translation": [1, 1, 1]},
            {"type": "scale", "scale": [3, 3, 3]},
        ],
    }
    meta = read_array_meta(write(tmp_path, {".zattrs": multiscales(NM, level), "a/.zarray": ZARRAY}))
    assert meta.voxel_size_nm == (6, 6, 6)
    assert meta.corner_nm == (0, 0, 0)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"type": "rotation", "rotation": []}, "expected identity, scale or translation"),
        ({"type": "scale", "scale": [0, 1, 1]}, "positive"),
        ({"type": "scale", "scale": [-1, 1, 1]}, "positive"),
        ({"type": "scale", "scale": ["a", 1, 1]}, "expected a number"),
        ({"type": "scale", "scale": [1, 1]}, "2 entries"),
        ({"type": "scale", "path": "scales"}, "another file"),
    ],
    ids=["rotation", "zero", "negative", "text", "short", "path"],
)
def test_transform_that_no_grid_can_hold_is_named(tmp_path: Path, transform: dict[str, Any], message: str) -> None:
    group = multiscales(NM, {"path": "a", "coordinateTransformations": [transform]})
    with pytest.raises(FormatError, match=message):
        read_array_meta(write(tmp_path, {".zattrs": group, "a/.zarray": ZARRAY}))


def test_own_attributes_win_over_the_group(tmp_path: Path) -> None:
    documents = {
        ".zattrs": multiscales(NM, dataset("a", [8, 8, 8], [4, 4, 4])),
        "a/.zarray": ZARRAY,
        "a/.zattrs": {"resolution": [40, 4, 4]},
    }
    meta = read_array_meta(write(tmp_path, documents) / "a")
    assert meta.voxel_size_nm == (40, 4, 4)


def test_level_that_its_group_does_not_list_reads_its_own(tmp_path: Path) -> None:
    documents = {
        "v.zarr/.zattrs": multiscales(NM, dataset("a", [8, 8, 8])),
        "v.zarr/a/.zarray": ZARRAY,
        "v.zarr/b/.zarray": ZARRAY,
        "v.zarr/b/.zattrs": {"voxel_size": [5, 5, 5], "offset": [1, 2, 3]},
    }
    meta = read_array_meta(write(tmp_path, documents) / "v.zarr" / "b")
    assert (meta.voxel_size_nm, meta.corner_nm) == ((5, 5, 5), (1, 2, 3))


def test_array_listed_by_a_group_two_levels_up_is_placed(tmp_path: Path) -> None:
    documents = {
        "v.zarr/.zattrs": multiscales(NM, dataset("em/s0", [8, 8, 8], [0, 0, 0])),
        "v.zarr/em/s0/.zarray": ZARRAY,
    }
    assert read_array_meta(write(tmp_path, documents) / "v.zarr/em/s0").corner_nm == (-4, -4, -4)


def test_levels_come_finest_first_whatever_their_order(tmp_path: Path) -> None:
    datasets = [dataset("c", [32] * 3), dataset("a", [8] * 3), dataset("b", [16] * 3)]
    documents = {".zattrs": multiscales(NM, *datasets), **{f"{name}/.zarray": ZARRAY for name in "abc"}}
    assert [meta.path[-1] for meta in list_levels(write(tmp_path, documents))] == ["a", "b", "c"]


def test_listed_level_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    group = multiscales(NM, dataset("a", [8] * 3), dataset("b", [16] * 3))
    opened = open_levels(write(tmp_path, {".zattrs": group, "a/.zarray": ZARRAY}))
    assert len(opened.levels) == 1
    assert any("'b'" in warning for warning in opened.warnings)


def test_pyramid_without_any_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VolumeNotFoundError, match="'a'"):
        open_levels(write(tmp_path, {".zattrs": multiscales(NM, dataset("a", [8] * 3))}))


def test_multiscale_without_transforms_is_sized_by_shape(tmp_path: Path) -> None:
    group = {"multiscales": [{"version": "0.3", "axes": ["z", "y", "x"], "datasets": [{"path": "0"}, {"path": "1"}]}]}
    documents = {".zattrs": group, "0/.zarray": ZARRAY, "1/.zarray": {**ZARRAY, "shape": [8, 4, 4]}}
    fine, coarse = list_levels(write(tmp_path, documents))
    assert fine.voxel_size_nm == (1, 1, 1)
    assert coarse.voxel_size_nm == (1, 2, 2)
    assert any("taken from its shape" in warning for warning in coarse.warnings)


def test_bioformats2raw_container_opens_its_first_series(tmp_path: Path) -> None:
    group = multiscales(
        [
            {"name": "t", "type": "time"},
            {"name": "c", "type": "channel"},
            *axes("micrometer", "micrometer", "micrometer"),
        ],
        dataset("0", [1, 1, 0.04, 0.004, 0.004]),
    )
    documents = {
        ".zattrs": {"bioformats2raw.layout": 3},
        "0/.zattrs": group,
        "0/0/.zarray": {**ZARRAY, "shape": [1, 1, 8, 8, 8], "chunks": [1, 1, 8, 8, 8]},
    }
    opened = open_levels(write(tmp_path, documents))
    assert opened.levels[0].meta.axes == ("z", "y", "x")
    assert opened.levels[0].meta.voxel_size_nm == (40, 4, 4)
    assert any("series 0" in warning for warning in opened.warnings)


def test_plate_asks_for_one_image(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="plate"):
        open_levels(write(tmp_path, {".zattrs": {"plate": {"rows": []}}}))


def test_two_space_axes_are_no_volume(tmp_path: Path) -> None:
    flat = [{"name": "c", "type": "channel"}, *axes("nanometer", "nanometer", "nanometer")[1:]]
    group = multiscales(flat, dataset("a", [1, 4, 4]))
    with pytest.raises(FormatError, match="c, y, x"):
        open_levels(write(tmp_path, {".zattrs": group, "a/.zarray": ZARRAY}))


def test_stored_order_x_y_z_is_turned(tmp_path: Path) -> None:
    turned = list(reversed(axes("nanometer", "nanometer", "micrometer")))
    group = multiscales(turned, dataset("a", [0.004, 5, 60]))
    path = write(tmp_path, {".zattrs": group, "a/.zarray": {**ZARRAY, "shape": [7, 8, 9]}})
    assert read_array_meta(path).axes == ("x", "y", "z")
    meta = open_levels(path).levels[0].meta
    assert meta.axes == ("z", "y", "x")
    assert meta.shape == (9, 8, 7)
    assert meta.voxel_size_nm == (60, 5, 4)


def test_no_metadata_is_1_nm_with_a_warning(tmp_path: Path) -> None:
    meta = read_array_meta(write(tmp_path, {".zarray": ZARRAY}))
    assert (meta.voxel_size_nm, meta.corner_nm) == ((1, 1, 1), (0, 0, 0))
    assert any("1 nm assumed" in warning for warning in meta.warnings)


def test_funlib_units_and_axis_names(tmp_path: Path) -> None:
    attributes = {
        "axis_names": ["c^", "z", "y", "x"],
        "voxel_size": [0.04, 4, 4],
        "offset": [1, 0, 8],
        "units": ["um", "nm", "nm"],
    }
    array = {**ZARRAY, "shape": [2, 8, 8, 8], "chunks": [1, 8, 8, 8]}
    meta = read_array_meta(write(tmp_path, {".zarray": array, ".zattrs": attributes}))
    assert meta.axes == ("c", "z", "y", "x")
    assert (meta.voxel_size_nm, meta.corner_nm) == ((40, 4, 4), (1000, 0, 8))


def test_n5_transform_is_named_by_its_axes_and_is_the_corner(tmp_path: Path) -> None:
    transform = {"axes": ["z", "y", "x"], "scale": [3.24, 4, 5], "translate": [-1.5, 0, 2], "units": ["nm"] * 3}
    attributes = {**N5, "transform": transform, "pixelResolution": {"dimensions": [9, 9, 9], "unit": "nm"}}
    meta = read_array_meta(write(tmp_path, {"a.n5/s0/attributes.json": attributes}) / "a.n5/s0")
    assert (meta.voxel_size_nm, meta.corner_nm) == ((3.24, 4, 5), (-1.5, 0, 2))


def test_n5_multiscale_of_transforms(tmp_path: Path) -> None:
    levels = [
        {
            "path": f"s{i}",
            "transform": {"axes": ["z", "y", "x"], "scale": [4 * 2**i] * 3, "translate": [0] * 3, "units": ["nm"] * 3},
        }
        for i in range(2)
    ]
    documents = {
        "attributes.json": {"multiscales": [{"datasets": levels}]},
        "s0/attributes.json": N5,
        "s1/attributes.json": N5,
    }
    assert [meta.voxel_size_nm for meta in list_levels(write(tmp_path, documents))] == [(4, 4, 4), (8, 8, 8)]


def test_paintera_layout(tmp_path: Path) -> None:
    documents = {
        "p.n5/attributes.json": {"n5": "2.0.0"},
        "p.n5/raw/attributes.json": {"painteraData": {"type": "raw"}},
        "p.n5/raw/data/attributes.json": {"multiScale": True, "resolution": [4, 4, 40], "offset": [8, 0, 80]},
        "p.n5/raw/data/s0/attributes.json": N5,
        "p.n5/raw/data/s1/attributes.json": {**N5, "downsamplingFactors": [2, 2, 1]},
    }
    fine, coarse = list_levels(write(tmp_path, documents) / "p.n5/raw")
    assert (fine.voxel_size_nm, coarse.voxel_size_nm) == ((40, 4, 4), (40, 8, 8))
    assert fine.corner_nm == coarse.corner_nm == (80, 0, 8)
    assert read_array_meta(tmp_path / "p.n5/raw/data/s1").voxel_size_nm == (40, 8, 8)


def test_paintera_label_multisets_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="label multisets"):
        read_array_meta(write(tmp_path, {"attributes.json": {**N5, "isLabelMultiset": True}}))


def test_bigdataviewer_layout(tmp_path: Path) -> None:
    documents = {
        "b.n5/attributes.json": {"n5": "2.0.0"},
        "b.n5/setup0/attributes.json": {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]], "dataType": "uint8"},
        "b.n5/setup0/timepoint0/attributes.json": {"resolution": [4, 4, 40], "multiScale": True},
        "b.n5/setup0/timepoint0/s0/attributes.json": {**N5, "downsamplingFactors": [1, 1, 1]},
        "b.n5/setup0/timepoint0/s1/attributes.json": {**N5, "downsamplingFactors": [2, 2, 1]},
        "b.n5/setup1/attributes.json": {},
    }
    opened = open_levels(write(tmp_path, documents) / "b.n5")
    assert [array.meta.voxel_size_nm for array in opened.levels] == [(40, 4, 4), (40, 8, 8)]
    assert any("2 setups" in warning for warning in opened.warnings)


def test_n5_units_string_applies_to_every_axis(tmp_path: Path) -> None:
    attributes = {**N5, "resolution": [0.004, 0.004, 0.04], "units": "um"}
    assert read_array_meta(write(tmp_path, {"attributes.json": attributes})).voxel_size_nm == (40, 4, 4)


def test_n5_of_the_first_version_names_its_compression(tmp_path: Path) -> None:
    old = {name: value for name, value in N5.items() if name != "compression"}
    assert read_array_meta(write(tmp_path, {"attributes.json": {**old, "compressionType": "gzip"}})).codec == "gzip"


INFO = {
    "type": "image",
    "data_type": "uint8",
    "num_channels": 2,
    "scales": [
        {
            "key": f"s{i}",
            "size": [8, 9, 10],
            "resolution": [3.24 * 2**i, 4, 40],
            "voxel_offset": [10, -3, 2],
            "chunk_sizes": [[8, 8, 8]],
            "encoding": "raw",
        }
        for i in range(2)
    ],
}


def test_precomputed_scales_are_turned_and_placed(tmp_path: Path) -> None:
    fine, coarse = list_levels(write(tmp_path, {"info": INFO}))
    assert fine.axes == ("c", "z", "y", "x")
    assert fine.shape == (2, 10, 9, 8)
    assert fine.voxel_size_nm == (40, 4, 3.24)
    assert fine.corner_nm == pytest.approx((80, -12, 32.4))
    assert coarse.voxel_size_nm == (40, 4, 6.48)


def test_precomputed_scale_is_named_by_its_number(tmp_path: Path) -> None:
    write(tmp_path / "vol", {"info": INFO})
    assert read_array_meta(f"precomputed://{tmp_path}/vol/s1").voxel_size_nm == (40, 4, 6.48)
    assert read_array_meta(f"{tmp_path}/vol/s1").voxel_size_nm == (40, 4, 6.48)


def test_precomputed_exact_corner_wins_over_the_whole_numbered_offset(tmp_path: Path) -> None:
    scale = {**INFO["scales"][0], "chunkloom_corner_nm": [-20.0, -2.0, -1.62]}  # type: ignore[index]
    assert read_array_meta(write(tmp_path, {"info": {**INFO, "scales": [scale]}})).corner_nm == (-20, -2, -1.62)


def test_zarr_group_of_placed_levels_is_a_pyramid(tmp_path: Path) -> None:
    documents = {".zgroup": {"zarr_format": 2}}
    for i, size in enumerate((4, 8, 16)):
        documents |= {f"s{i}/.zarray": ZARRAY, f"s{i}/.zattrs": {"resolution": [size] * 3}}
    assert len(list_levels(write(tmp_path, documents))) == 3
