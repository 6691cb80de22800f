"""Listing the stored chunks of a sparse array."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr

from chunkloom.errors import FormatError
from chunkloom.io import list_populated_chunks


@pytest.mark.parametrize("separator", [".", "/"])
def test_stored_chunks_are_listed_in_index_order(tmp_path: Path, separator: str) -> None:
    encoding = {"name": "v2", "separator": separator}
    array = zarr.create_array(
        tmp_path / "a", shape=(24, 4, 24), chunks=(2, 2, 2), dtype="u1", zarr_format=2, chunk_key_encoding=encoding
    )
    for index in [(11, 0, 2), (2, 1, 10), (2, 1, 2), (0, 0, 0)]:
        array[tuple(2 * i for i in index)] = 1
    (tmp_path / "a" / "notes.txt").write_text("")
    assert list_populated_chunks(tmp_path / "a") == [(0, 0, 0), (2, 1, 2), (2, 1, 10), (11, 0, 2)]


def test_folder_that_is_no_array_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"\.zarray"):
        list_populated_chunks(tmp_path)
