"""Which chunks of a local zarr array are stored: for sparse arrays, such as annotations, that are mostly absent."""

from __future__ import annotations

import os
import re

from chunkloom.errors import FormatError
from chunkloom.io.nodes import parse_layout, read_node
from chunkloom.io.paths import parse_path
from chunkloom.io.store import Store


def list_populated_chunks(array_dir: str | os.PathLike[str]) -> list[tuple[int, ...]]:
    """Indices of the chunk files of a local zarr v2 array, in index order whatever the file system's.

    Raises
    ------
    FormatError
        When this is no local zarr v2 array.
    """
    store = Store(parse_path(array_dir))
    node = read_node(store, ("zarr2",)) if store.location.is_local else None
    if node is None or node.kind != "array":
        raise FormatError(f"{array_dir} is not a local zarr v2 array: expected a folder with .zarray")
    layout = parse_layout(node, None)
    separator = layout.details.separator
    number = r"(0|[1-9]\d*)"
    key = re.compile(re.escape(separator).join([number] * layout.ndim))
    counts = [-(-n // c) for n, c in zip(layout.shape, layout.chunk_shape, strict=True)]
    found = []
    for folder, _, files in os.walk(store.location.base):
        below = os.path.relpath(folder, store.location.base).replace(os.sep, "/")
        for file in files:
            match = key.fullmatch(file if below == "." else f"{below}/{file}")
            if match:
                index = tuple(int(part) for part in match.groups())
                if all(i < n for i, n in zip(index, counts, strict=True)):
                    found.append(index)
    return sorted(found)
