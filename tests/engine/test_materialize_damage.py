"""A damaged stored chunk is never passed on into a store that then looks finished."""

from __future__ import annotations

import numpy as np
import pytest
import tensorstore as ts

from chunkloom import materialize, open_volume
from chunkloom.errors import ChunkError

SHAPE, CHUNK = (20, 20, 20), (10, 10, 10)
ARRAY = np.random.default_rng(2).integers(1, 2**16, SHAPE).astype(np.uint16)
CODECS = {
    "blosc": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1},
    "zstd": {"id": "zstd", "level": 1},
    "gzip": {"id": "gzip", "level": 5},
    "none": None,
}
DAMAGE = {
    "cut": lambda raw: raw[: len(raw) // 2],
    "empty": lambda raw: b"",
    "longer": lambda raw: raw + b"\x00\x01",
    "replaced": lambda raw: b"\x00" * len(raw),
}


# Bytes that were not packed are a chunk of other values when they are replaced.
CASES = [(codec, damage) for codec in CODECS for damage in DAMAGE if (codec, damage) != ("none", "replaced")]


@pytest.mark.parametrize(("codec", "damage"), CASES)
@pytest.mark.parametrize("skip_empty", [True, False], ids=["skipping", "keeping"])
def test_a_damaged_chunk_stops_the_run_by_name(tmp_path, codec, damage, skip_empty):
    source = tmp_path / "a.zarr"
    metadata = {"shape": SHAPE, "chunks": CHUNK, "dtype": "<u2", "compressor": CODECS[codec], "fill_value": 0}
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": str(source)},
        "metadata": {**metadata, "order": "C", "dimension_separator": "/"},
    }
    ts.open(spec, create=True).result().write(ARRAY).result()
    chunk = source / "1/1/0"
    whole = chunk.read_bytes()
    chunk.write_bytes(DAMAGE[damage](whole))
    options = {"format": "zarr2", "codec": codec, "skip_empty": skip_empty}
    with pytest.raises(ChunkError, match=r"0/1\.1\.0"):
        materialize(open_volume(source), tmp_path / "b.zarr", **options)
    assert "unfinished" in (tmp_path / "b.zarr" / ".zattrs").read_text()
    chunk.write_bytes(whole)
    materialize(open_volume(source), tmp_path / "b.zarr", **options)
    assert np.array_equal(open_volume(tmp_path / "b.zarr").read(), ARRAY)
