"""Metadata of every format, broken at random: an array or a `ChunkloomError`, and never much memory."""

from __future__ import annotations

import copy
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkloom.errors import ChunkloomError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import list_levels, open_levels, parse, read_array_meta

ZARRAY = {
    "zarr_format": 2,
    "shape": [4, 5, 6],
    "chunks": [2, 3, 4],
    "dtype": "<u2",
    "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "fill_value": 3,
    "order": "C",
    "filters": [{"id": "delta", "dtype": "<u2", "astype": "<u2"}],
    "dimension_separator": "/",
}
AXES = [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"]
TRANSFORMS = [{"type": "scale", "scale": [4.0, 4.0, 4.0]}, {"type": "translation", "translation": [2.0, 0.0, 1.0]}]
MULTISCALES = [
    {
        "version": "0.4",
        "axes": AXES,
        "datasets": [{"path": "s0", "coordinateTransformations": TRANSFORMS}],
        "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0, 1.0]}],
    }
]
LEGACY = {
    "resolution": [4, 4, 40],
    "offset": [0, 1, 2],
    "units": ["nm", "nm", "nm"],
    "axes": ["x", "y", "z"],
    "transform": {"axes": ["z", "y", "x"], "scale": [1, 2, 3], "translate": [0, 0, 1], "units": ["nm"] * 3},
    "pixelResolution": {"unit": "um", "dimensions": [0.004, 0.004, 0.04]},
    "downsamplingFactors": [1, 2, 2],
}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 2, "blocksize": 0},
}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZARR3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 5, 6],
    "data_type": "uint16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 3,
    "codecs": [
        {"name": "transpose", "configuration": {"order": [2, 1, 0]}},
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [2, 2, 2],
                "codecs": [LITTLE, BLOSC],
                "index_codecs": [LITTLE, {"name": "crc32c"}],
                "index_location": "end",
            },
        },
    ],
    "attributes": LEGACY,
    "dimension_names": ["z", "y", "x"],
}
N5 = {
    "dimensions": [6, 5, 4],
    "blockSize": [4, 3, 2],
    "dataType": "uint16",
    "compression": {"type": "gzip", "level": 1},
    **LEGACY,
}
INFO = {
    "@type": "neuroglancer_multiscale_volume",
    "data_type": "uint64",
    "num_channels": 1,
    "type": "segmentation",
    "scales": [
        {
            "key": "8_8_40",
            "size": [6, 5, 4],
            "resolution": [8, 8, 40],
            "voxel_offset": [1, -2, 3],
            "chunk_sizes": [[4, 4, 4]],
            "encoding": "compressed_segmentation",
            "compressed_segmentation_block_size": [4, 4, 4],
            "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1",
                "preshift_bits": 1,
                "hash": "identity",
                "minishard_bits": 2,
                "shard_bits": 1,
                "data_encoding": "gzip",
            },
        }
    ],
}
PLAIN = {**ZARRAY, "filters": None}
GROUP3 = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "multiscales": MULTISCALES}}}
# Per kind: the documents of a folder, and which of them is broken.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "zarr2": ({".zarray": PLAIN}, ".zarray"),
    "zarr2-filters": ({".zarray": ZARRAY}, ".zarray"),
    "zarr2-attributes": ({".zarray": PLAIN, ".zattrs": LEGACY}, ".zattrs"),
    "ome-0.4": (
        {".zgroup": {"zarr_format": 2}, ".zattrs": {"multiscales": MULTISCALES}, "s0/.zarray": PLAIN},
        ".zattrs",
    ),
    "zarr3": ({"zarr.json": ZARR3}, "zarr.json"),
    "ome-0.5": ({"zarr.json": GROUP3, "s0/zarr.json": ZARR3}, "zarr.json"),
    "n5": ({"attributes.json": N5}, "attributes.json"),
    "n5-group": (
        {"attributes.json": {**LEGACY, "scales": [[1, 1, 1], [2, 2, 2]]}, "s0/attributes.json": N5},
        "attributes.json",
    ),
    "precomputed": ({"info": INFO}, "info"),
}

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.sampled_from(
        [2**31, 2**53 + 1, 2**60, 2**62, 2**63, 2**64, 10**30, -(2**63), 1e300, -0.0, 0.5, 1e-320, "NaN", "-Infinity"]
    ),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(
        ["", "/", "..", "s0", "<u8", "|O", "<U9", "raw", "gzip", "zstd", "jpeg", "bytes", "crc32c", "F", "zyx"]
    ),
    st.text(max_size=5),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "id", "type", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, the document itself first."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        found.extend(places(entry, (*path, key)))
    return found


@st.composite
def broken(draw: st.DrawFn, document: Any) -> Any:
    """`document` with one to three places replaced, removed or repeated."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(document)))
        if not path:
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "repeat"])):
            case "replace":
                holder[path[-1]] = draw(VALUES)
            case "remove":
                del holder[path[-1]]
            case "repeat" if isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[path[-1] : path[-1] + 1]) * draw(st.integers(1, 40)))
    return document


def attempt(folder: Path) -> None:
    """Read the metadata and a few voxels; any `ChunkloomError` is fine, in one short line."""
    said = ""
    try:
        list_levels(folder)
        for array in open_levels(folder).levels:
            shape = array.meta.shape[-3:]
            assert all(size > 0 for size in array.meta.voxel_size_nm)
            if array.meta.shape[:-3] and max(array.meta.shape[:-3]) > 8:
                continue
            array.read(Box((0, 0, 0), tuple(min(n, 3) for n in shape)))
            far = tuple(max(0, n - 2) for n in shape)
            array.read(Box(far, shape))
    except ChunkloomError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 2000


def write(folder: Path, documents: dict[str, Any]) -> None:
    for key, value in documents.items():
        file = folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    for key in ("0/0/0", "c/0/0/0", "s0/0/0/0", "s0/c/0/0/0", "0.0.0"):
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(bytes(range(64)))


EXAMPLES = int(os.environ.get("CHUNKLOOM_FUZZ_EXAMPLES", "120"))


@pytest.mark.parametrize("kind", KINDS)
def test_broken_metadata_gives_an_array_or_our_error(
    kind: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse, "MAX_CHUNK_BYTES", 2**20)
    documents, key = KINDS[kind]
    folder = tmp_path_factory.mktemp("fuzz") / "v"
    write(folder, documents)
    attempt(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(document=broken(documents[key]))
    def run(document: Any) -> None:
        (folder / key).write_text(json.dumps(document))
        attempt(folder)

    run()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000, f"{grown} KiB for chunks of at most 1 MiB"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(content=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
@pytest.mark.parametrize("key", [".zarray", "zarr.json", "attributes.json", "info", ".zattrs", ".zgroup"])
def test_any_bytes_as_metadata_give_our_error(
    key: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / key).write_bytes(content)
    attempt(folder)


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_deeply_nested_metadata_is_refused(tmp_path: Path, depth: int) -> None:
    (tmp_path / ".zarray").write_text("[" * depth + "]" * depth)
    with pytest.raises(ChunkloomError):
        read_array_meta(tmp_path)


HUGE = {
    "zarr2": {".zarray": {**PLAIN, "chunks": [2**20] * 3}},
    "zarr3": {
        "zarr.json": {
            **ZARR3,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**20] * 3}},
            "codecs": [LITTLE],
        }
    },
    "n5": {"attributes.json": {**N5, "blockSize": [2**20] * 3}},
    "precomputed": {"info": {**INFO, "scales": [{**INFO["scales"][0], "chunk_sizes": [[2**20] * 3]}]}},  # type: ignore[index]
}


@pytest.mark.parametrize("kind", HUGE)
def test_chunk_of_2_to_the_60_voxels_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    write(tmp_path, HUGE[kind])
    with pytest.raises(FormatError, match="1048576 x 1048576 x 1048576"):
        read_array_meta(tmp_path)


@pytest.mark.parametrize("kind", ["h5", "tif"])
def test_file_with_flipped_bytes_gives_an_array_or_our_error(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import h5py
    import numpy as np
    import tifffile

    data = np.arange(4 * 20 * 20, dtype="u2").reshape(4, 20, 20)
    file = tmp_path_factory.mktemp("file") / f"a.{kind}"
    if kind == "h5":
        with h5py.File(file, "w") as h5:
            h5.create_dataset("raw", data=data, chunks=(2, 8, 8), compression="gzip").attrs["resolution"] = [4.0] * 3
    else:
        tifffile.imwrite(
            file, data, ome=True, tile=(16, 16), compression="zlib", metadata={"axes": "ZYX", "PhysicalSizeX": 1}
        )
    whole = file.read_bytes()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        flips=st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=4),
        end=st.one_of(st.just(len(whole)), st.integers(0, len(whole))),
    )
    def run(flips: list[tuple[int, int]], end: int) -> None:
        content = bytearray(whole)
        for at, value in flips:
            content[at] = value
        # A new name each time: HDF5 keeps open files by name.
        broken_file = file.with_name(f"{abs(hash((tuple(flips), end)))}.{kind}")
        broken_file.write_bytes(bytes(content[:end]))
        attempt(broken_file)
        broken_file.unlink()

    run()
