"""Network files: cells and connections in one chunked HDF5 file, fast to write, safe from kills, read by BSB.

A pure store on top of `geometry`. What fills it from volumes is `bridge`.
"""

from chunkloom.network.access import handles_handles
from chunkloom.network.appending import MorphologyIndex
from chunkloom.network.check import check
from chunkloom.network.chunks import Chunk, chunklist
from chunkloom.network.compact import compact
from chunkloom.network.connectivity import ConnectivitySet
from chunkloom.network.file import NetworkFile
from chunkloom.network.files import FileStore
from chunkloom.network.loader import ChunkedCollection, ChunkedProperty, ChunkLoader
from chunkloom.network.morphologies import Morphology, MorphologyRepository
from chunkloom.network.parts import Part, merge_parts
from chunkloom.network.placement import PlacementSet
from chunkloom.network.resource import Resource

__all__ = [
    "Chunk",
    "ChunkLoader",
    "ChunkedCollection",
    "ChunkedProperty",
    "ConnectivitySet",
    "FileStore",
    "Morphology",
    "MorphologyIndex",
    "MorphologyRepository",
    "NetworkFile",
    "Part",
    "PlacementSet",
    "Resource",
    "check",
    "chunklist",
    "compact",
    "handles_handles",
    "merge_parts",
]
