"""Stores that the browser engine wrote in Node, read by zarr-python and tensorstore: shape, place, values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHAPE, CHUNK = (37, 50, 41), (16, 16, 16)
VOXEL, CORNER = (50.0, 4.6, 4.6), (-25.0, -2.3, -2.3)
BOXES = {
    "off-the-edges": ((3, 5, 2), (30, 44, 39)),
    "on-the-edges": ((16, 16, 0), (32, 48, 32)),
    "inside-one-chunk": ((3, 4, 5), (9, 11, 12)),
    "to-the-end": ((20, 33, 1), (37, 50, 41)),
}

Materialize = Callable[..., tuple[Path, dict[str, Any], np.ndarray[Any, Any]]]


@pytest.fixture
def materialize(node: Callable[..., Any], engine: Path, tmp_path: Path) -> Materialize:
    """Makes an array, has Node materialize it, and gives the store, what Node said, and the array."""

    def run(dtype: str, channels: tuple[int, ...] = (), **options: Any):
        generator = np.random.default_rng(7)
        shape = (*channels, *SHAPE)
        if dtype == "bool":
            array = generator.random(shape) > 0.5
        elif dtype.startswith("float"):
            array = generator.standard_normal(shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            array = generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        file = tmp_path / "source.bin"
        file.write_bytes(array.tobytes())
        level = {"file": str(file), "shape": SHAPE, "chunk": CHUNK, "voxelSize": VOXEL, "corner": CORNER}
        source = {"name": "v", "dtype": dtype, "channels": channels, "levels": [level]}
        store = tmp_path / "store.zarr"
        job = {"engine": str(engine), "source": source, "options": options, "target": str(store)}
        (tmp_path / "job.json").write_text(json.dumps(job))
        return store, node("materialize.mjs", str(tmp_path / "job.json")), array

    return run


def by_zarr_python(store: Path) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    import zarr

    group = zarr.open_group(str(store), mode="r")
    attributes = dict(group.attrs)
    return attributes.get("ome", attributes)["multiscales"][0], group["0"][...]  # type: ignore[index, return-value]


def by_tensorstore(store: Path, form: str) -> np.ndarray[Any, Any]:
    import tensorstore

    driver = {"zarr2": "zarr", "zarr3": "zarr3"}[form]
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{store}/0/"}}
    array: np.ndarray[Any, Any] = tensorstore.open(spec, read=True).result().read().result()
    return array


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize("box", BOXES)
def test_a_box_reads_back_equal(materialize: Materialize, form: str, compression: str, box: str) -> None:
    lo, hi = BOXES[box]
    store, said, array = materialize("uint16", lo=lo, hi=hi, format=form, compression=compression)
    want = array[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))]
    multiscale, values = by_zarr_python(store)
    np.testing.assert_array_equal(values, want)
    np.testing.assert_array_equal(by_tensorstore(store, form), want)
    scale, translation = (t[t["type"]] for t in multiscale["datasets"][0]["coordinateTransformations"])
    assert scale == list(VOXEL)
    assert translation == pytest.approx([lo[a] * VOXEL[a] for a in range(3)], abs=1e-9)
    assert said["result"]["shape"] == list(want.shape)
    assert said["progress"] == 1 + said["last"]["needed"]


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_every_dtype_reads_back_equal(materialize: Materialize, form: str, dtype: str) -> None:
    lo, hi = BOXES["off-the-edges"]
    store, _, array = materialize(dtype, lo=lo, hi=hi, format=form)
    want = array[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))]
    values = by_zarr_python(store)[1]
    assert values.dtype == want.dtype
    np.testing.assert_array_equal(values, want)
    np.testing.assert_array_equal(by_tensorstore(store, form), want)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_channels_are_whole_and_first(materialize: Materialize, form: str) -> None:
    lo, hi = BOXES["off-the-edges"]
    store, _, array = materialize("float32", (2,), lo=lo, hi=hi, format=form)
    want = array[(slice(None), *(slice(a, b) for a, b in zip(lo, hi, strict=True)))]
    np.testing.assert_array_equal(by_zarr_python(store)[1], want)
    np.testing.assert_array_equal(by_tensorstore(store, form), want)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_the_level_extent_has_the_levels_shape_and_the_boxs_chunks(materialize: Materialize, form: str) -> None:
    lo, hi = BOXES["off-the-edges"]
    store, _, array = materialize("uint8", lo=lo, hi=hi, format=form, extent="level")
    want = np.zeros_like(array)
    rounded = tuple(
        slice(a // c * c, min(n, math.ceil(b / c) * c)) for a, b, c, n in zip(lo, hi, CHUNK, SHAPE, strict=True)
    )
    want[rounded] = array[rounded]
    np.testing.assert_array_equal(by_zarr_python(store)[1], want)
    np.testing.assert_array_equal(by_tensorstore(store, form), want)


def test_metadata_is_strict_json(materialize: Materialize) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    store, _, _ = materialize("float32", format="zarr2")
    for name in (".zgroup", ".zattrs", "0/.zarray"):
        json.loads((store / name).read_text(), parse_constant=refuse)


def test_a_truncated_edge_chunk_is_refused_by_readers(materialize: Materialize) -> None:
    """Why edge chunks are written at full size: the array's shape is cut, never a chunk's bytes."""
    store, _, _ = materialize("uint8", lo=(3, 5, 2), hi=(30, 44, 39), format="zarr2", compression="none")
    edge = store / "0" / "1" / "2" / "2"
    edge.write_bytes(edge.read_bytes()[: 11 * 7 * 5])
    with pytest.raises(ValueError, match=r"reshape|broadcast|buffer"):
        by_zarr_python(store)
    with pytest.raises(ValueError, match=r"Not enough data|DATA_LOSS|bytes"):
        by_tensorstore(store, "zarr2")


def test_a_quarter_of_the_slab_is_kept_to_in_node(node: Callable[..., Any], engine: Path, tmp_path: Path) -> None:
    said = node("memory.mjs", str(engine), str(tmp_path / "scratch"), flags=("--expose-gc",))
    assert said["plan"]["spills"]
    assert said["spilled"] > 0
    assert said["memoryBudget"] < said["free"]["heldBytes"] / 3
    assert said["most"] <= said["memoryBudget"]
    assert list((tmp_path / "scratch").iterdir()) == []
