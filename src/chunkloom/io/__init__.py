"""Datasets in the world: zarr, N5, precomputed, HDF5 and TIFF, local or remote, placed to the half voxel.

Knows nothing of computed volumes, servers or viewers. Importing it imports no slow library; each is imported by the
first array that needs it.
"""

from chunkloom.io.metadata import ArrayMeta, list_levels, read_array_meta
from chunkloom.io.multiscale import choose_level, closest_raw_scale, relabel
from chunkloom.io.ome import multiscales_attrs, ome_corner, ome_translation, singlescale_attrs
from chunkloom.io.paths import Location, parse_path
from chunkloom.io.populated import list_populated_chunks
from chunkloom.io.source import OpenedPyramid, StoredArray, open_levels, read_padded

__all__ = [
    "ArrayMeta",
    "Location",
    "OpenedPyramid",
    "StoredArray",
    "choose_level",
    "closest_raw_scale",
    "list_levels",
    "list_populated_chunks",
    "multiscales_attrs",
    "ome_corner",
    "ome_translation",
    "open_levels",
    "parse_path",
    "read_array_meta",
    "read_padded",
    "relabel",
    "singlescale_attrs",
]
