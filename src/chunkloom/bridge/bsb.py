"""The Brain Scaffold Builder's storage engine `chunkloom`: `storage: {engine: chunkloom, root: net.hdf5}`.

An adapter: BSB's interfaces on one side, `chunkloom.network` on the other, and nothing decided in between but BSB's
own types, errors and habits (an empty chunk filter means every chunk there). Imported by BSB through the entry point
`bsb.storage.engines`; needs the extra `bsb`.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

from bsb import config
from bsb.storage.interfaces import Engine as BsbEngine
from bsb.storage.interfaces import StorageNode as BsbStorageNode

from chunkloom.bridge.bsb_connectivity import ConnectivitySet
from chunkloom.bridge.bsb_files import FileStore
from chunkloom.bridge.bsb_morphologies import MorphologyRepository
from chunkloom.bridge.bsb_placement import PlacementSet
from chunkloom.network import NetworkFile
from chunkloom.network.errors import ChunkloomError
from chunkloom.network.records import Touch

__all__ = ["ConnectivitySet", "Engine", "FileStore", "MorphologyRepository", "PlacementSet", "StorageNode"]


def _new_root() -> str:
    return os.path.abspath(f"network_{time.strftime('%Y_%m_%d')}_{uuid.uuid4().hex[:12]}.hdf5")


@config.node
class StorageNode(BsbStorageNode):  # type: ignore[misc, unused-ignore]
    """The `storage` block of a configuration."""

    root = config.attr(type=str, default=_new_root, call_default=True)


class Engine(BsbEngine):  # type: ignore[misc, unused-ignore]
    """One network file, for BSB."""

    def __init__(self, root: Any, comm: Any) -> None:
        super().__init__(root, comm)
        self._opened: dict[str, NetworkFile] = {}

    @property
    def network(self) -> NetworkFile:
        """The network file; for reading only inside `read_only()`."""
        mode: Any = "r" if self._readonly else "a"
        if mode not in self._opened:
            self._opened[mode] = NetworkFile(self._root, mode)
        return self._opened[mode]

    @property
    def versions(self) -> dict[str, str]:
        """Engine and versions that wrote the file."""
        found = self.network.versions
        return {"engine": self.format, "version": found.get("chunkloom", ""), "bsb": found.get("bsb", "")}

    @property
    def metadata(self) -> dict[str, Any]:
        """The file's provenance."""
        return self.network.provenance if self.exists() else {}

    def _bump_state(self) -> None:
        if self._first():
            with self.network.writing() as handle:
                handle.submit(Touch())
        self._comm.barrier()

    @property
    def root_slug(self) -> str:
        return str(os.path.relpath(self._root))

    @staticmethod
    def recognizes(root: Any, comm: Any) -> bool:
        """Whether the path is a network file."""
        try:
            NetworkFile.open(root, "r")
        except (ChunkloomError, OSError, TypeError):
            return False
        return True

    def exists(self) -> bool:
        return NetworkFile.exists(self._root)

    def create(self) -> None:
        """Make the file if it is not there; what is there stays as it is."""
        if self._first() and not self.exists():
            NetworkFile.create(self._root)
        self._comm.barrier()

    def move(self, new_root: Any) -> None:
        if self._first():
            self.network.move(new_root)
        self._comm.barrier()
        self._reopen(new_root)

    def copy(self, new_root: Any) -> None:
        if self._first():
            self.network.copy(new_root).close()
        self._comm.barrier()

    def remove(self) -> None:
        if self._first():
            self.network.remove()
        self._comm.barrier()
        self._reopen(self._root)

    def clear_placement(self) -> None:
        if self._first():
            self.network.clear_placement()
        self._comm.barrier()

    def clear_connectivity(self) -> None:
        if self._first():
            self.network.clear_connectivity()
        self._comm.barrier()

    def get_chunk_stats(self) -> dict[str, Any]:
        """Cells and connections per chunk id (text, as BSB has it)."""
        return {str(c): n for c, n in self.network.get_chunk_stats().items()}

    @contextlib.contextmanager
    def read_scope(self) -> Iterator[Any]:
        """Many reads of one state of the file."""
        with self.network.read_scope() as handle:
            yield handle

    @contextlib.contextmanager
    def write_scope(self) -> Iterator[Any]:
        """Many writes, which the HDF5 file has at the end."""
        with self.network.write_scope() as handle:
            yield handle

    def _first(self) -> bool:
        """Whether this is the process that acts, once all have come."""
        self._comm.barrier()
        return bool(self._comm.get_rank() == 0)

    def _reopen(self, root: Any) -> None:
        self._root = root
        self._opened.clear()
