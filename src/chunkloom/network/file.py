"""A network file: cells and connections in chunks, morphologies and files, in HDF5 that the Brain Scaffold Builder
opens.

The entrance to the package. docs/design/network-journal.md tells how it is kept safe, docs/guide/networks.md how it
is used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

from chunkloom.network import hdf5, statistics
from chunkloom.network.access import ReadHandle, WriteHandle
from chunkloom.network.apply import make_roots
from chunkloom.network.batch import Batch
from chunkloom.network.checkpoint import new_file
from chunkloom.network.chunks import Chunk, parse_size
from chunkloom.network.connectivity import ConnectivitySet
from chunkloom.network.errors import (
    FormatError,
    LockedError,
    NetworkExistsError,
    NetworkNotFoundError,
    ParameterError,
)
from chunkloom.network.files import FileStore
from chunkloom.network.handle import handle_of
from chunkloom.network.morphologies import MorphologyRepository
from chunkloom.network.placement import PlacementSet
from chunkloom.network.provenance import FORMAT_VERSION, chunkloom_version, new_provenance
from chunkloom.network.records import Clear, Forget
from chunkloom.network.statistics import CONNECTIVITY, PLACEMENT, Statistics


class NetworkFile:
    """One network file. Made by `create` and `open`; a context manager that closes it.

    Each write is checked, and kept once its method returns, even if the process is killed then. Other programs see
    it after the next checkpoint: the end of a `write_scope`, `close`, or the end of the process.

    Attributes
    ----------
    path : str
    morphologies : MorphologyRepository
    files : FileStore
    """

    def __init__(self, path: str | os.PathLike[str], mode: Literal["r", "a"] = "a") -> None:
        self.path = os.fspath(path)
        self.mode = mode
        self._handle = handle_of(path)
        self.morphologies = MorphologyRepository(self)
        self.files = FileStore(self)

    # ---- life of a file

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        chunk_size: Iterable[float] | None = None,
        overwrite: bool = False,
    ) -> Self:
        """A new, empty network file.

        Parameters
        ----------
        chunk_size : 3 numbers, optional
            Size of every chunk in x, y, z; else the first write that states one sets it.
        overwrite : bool
            Replace a file that is there.

        Raises
        ------
        NetworkExistsError
            There is a file, and not `overwrite`.
        """
        network = cls(path)
        handle = network._handle
        handle.acquire()
        try:
            with handle.lock:
                if os.path.exists(handle.path) and not overwrite:
                    raise NetworkExistsError(
                        f"there is a file {path} already; open it, or pass overwrite=True to replace it"
                    )
                handle.abandon()
                _write_empty(handle.path, parse_size(chunk_size))
                _remove(f"{handle.path}.journal")
                shutil.rmtree(f"{handle.path}.parts", ignore_errors=True)
        finally:
            handle.release()
        return network

    @classmethod
    def open(cls, path: str | os.PathLike[str], mode: Literal["r", "a"] = "a") -> Self:
        """A network file that exists; "r" refuses to write.

        Raises
        ------
        NetworkNotFoundError, FormatError
            There is no file at the path, or it is not a network file.
        """
        network = cls(path, mode)
        with network.reading() as handle:
            if not handle.is_network():
                raise FormatError(
                    f"{path} is HDF5, but not a network file: it has no group {PLACEMENT!r} or {CONNECTIVITY!r}"
                )
        return network

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a file at the path."""
        return os.path.isfile(path)

    def close(self) -> None:
        """Make everything part of the HDF5 file. The object can be used again."""
        if self.mode == "a":
            self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<NetworkFile {self.path}>"

    def checkpoint(self) -> None:
        """Make everything written so far part of the HDF5 file, for other programs to see."""
        with self._owned():
            self._handle.checkpoint()

    def copy(self, path: str | os.PathLike[str]) -> NetworkFile:
        """Copy the file, with everything written so far, to a path where nothing is (`NetworkExistsError`)."""
        with self._owned():
            self._free(path)
            self._handle.checkpoint()
            temporary = f"{os.path.realpath(path)}.new"
            shutil.copyfile(self._handle.path, temporary)
            os.replace(temporary, os.path.realpath(path))
        return type(self)(path)

    def move(self, path: str | os.PathLike[str]) -> None:
        """Move the file to a path where nothing is (`NetworkExistsError`); this object follows it."""
        with self._owned():
            self._free(path)
            self._handle.checkpoint()
            self._handle.abandon()
            shutil.move(self._handle.path, os.path.realpath(path))
        self._handle.close()
        self.path = os.fspath(path)
        self._handle = handle_of(path)

    def remove(self) -> None:
        """Remove the file with all that lies beside it."""
        with self._owned():
            self._handle.abandon()
            _remove(self._handle.path, f"{self._handle.path}.journal", f"{self._handle.path}.new")
            shutil.rmtree(f"{self._handle.path}.parts", ignore_errors=True)
        self._handle.close()

    @staticmethod
    def discard_journal(path: str | os.PathLike[str]) -> None:
        """Give up writes that are not part of the file, where the file was changed or exchanged by another program."""
        handle = handle_of(path)
        handle.acquire()
        try:
            handle.abandon()
            _remove(f"{handle.path}.journal")
        finally:
            handle.release()

    # ---- scopes

    def reading(self) -> contextlib.AbstractContextManager[ReadHandle]:
        """A handle for one read; sees everything that was written, by whoever."""
        return self._handle.reading()

    def writing(self) -> contextlib.AbstractContextManager[WriteHandle]:
        """A handle for one write."""
        self._writable()
        return self._handle.writing()

    def read_scope(self) -> contextlib.AbstractContextManager[ReadHandle]:
        """Many reads of one state of the file. Writes inside are allowed and seen."""
        return self._handle.read_scope()

    def write_scope(self) -> contextlib.AbstractContextManager[WriteHandle]:
        """Many writes under one lock, made part of the HDF5 file at the end. What was written stays, even after an
        error."""
        self._writable()
        return self._handle.write_scope()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[Batch]:
        """Many writes that the file has all of, once the block ends, or none: pass the handle as `handle=`.

        They are kept in memory until then, and no reader sees them before. After an error, or a kill, none were made.
        """
        self._writable()
        with self._handle.write_scope():
            batch = Batch(self._handle)
            yield batch
            with self._handle.lock:
                if self._handle.stats().state != batch.begun:
                    raise LockedError(
                        f"{self.path} was written to meanwhile, not through this handle; nothing of it was"
                    )
                if batch.records:
                    self._handle.absorb(batch.records)

    @property
    def timeout(self) -> float:
        """Seconds to wait for another writer before giving up."""
        return self._handle.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._handle.timeout = seconds

    # ---- what is in it

    @property
    def chunk_size(self) -> tuple[float, float, float] | None:
        """Size of every chunk in x, y, z; None while it is not known."""
        with self.reading() as handle:
            return handle.stats.chunk_size

    def placement(self, name: str, chunks: Any = None, labels: Iterable[str] | None = None) -> PlacementSet:
        """The placement set of a cell type, filtered by chunks and labels if given (`SetNotFoundError`)."""
        found = PlacementSet(self, name)
        if chunks is not None:
            found.set_chunk_filter(chunks)
        found.set_label_filter(labels)
        return found

    def require_placement(self, name: str) -> PlacementSet:
        """The placement set of a cell type, made if it is not there."""
        return PlacementSet.require(self, name)

    def placement_names(self) -> list[str]:
        """Cell types that have a placement set."""
        with self.reading() as handle:
            return [p.split("/", 1)[1] for p in handle.stats.sets if p.startswith(f"{PLACEMENT}/")]

    def connectivity(self, tag: str) -> ConnectivitySet:
        """The connectivity set of a tag (`SetNotFoundError`)."""
        return ConnectivitySet(self, tag)

    def require_connectivity(self, pre: str, post: str, tag: str) -> ConnectivitySet:
        """The connectivity set of a tag, made if it is not there (`SetExistsError` if it is between other cell
        types)."""
        return ConnectivitySet.require(self, pre, post, tag)

    def connectivity_tags(self) -> list[str]:
        """Tags of all connectivity sets."""
        return ConnectivitySet.get_tags(self)

    def clear_placement(self) -> None:
        """Remove all placement sets. Connections, and what is counted of them, stay."""
        with self.writing() as handle:
            handle.submit(Forget(PLACEMENT))

    def clear_connectivity(self) -> None:
        """Remove the connections of all connectivity sets; the sets stay."""
        with self.writing() as handle:
            for tag in list(handle.stats.tags):
                handle.submit(Clear(f"{CONNECTIVITY}/{tag}", None))

    def get_chunk_stats(self) -> dict[int, dict[str, Any]]:
        """Per chunk id: `placed` cells, and `connections` with `inc` and `out`."""
        with self.reading() as handle:
            totals = handle.stats.chunk_totals()
        return {
            c: {"placed": placed, "connections": {"inc": inc, "out": out}}
            for c, (placed, inc, out) in sorted(totals.items())
        }

    def get_all_chunks(self) -> list[Chunk]:
        """Every chunk that has or had cells or connections."""
        with self.reading() as handle:
            return [Chunk.from_id(c, handle.stats.chunk_size) for c in sorted(handle.stats.chunk_totals())]

    @property
    def versions(self) -> dict[str, str]:
        """What wrote the file: the format's version and the engine's."""
        with self.reading() as handle:
            attrs = handle.file.attrs
            names = ("bsb_version", "bsb_hdf5_version", "chunkloom_version")
            return {n.removesuffix("_version"): str(attrs[n]) for n in names if n in attrs}

    @property
    def provenance(self) -> dict[str, Any]:
        """What the file says of its making: ids, times, programs."""
        with self.reading() as handle:
            return {**handle.stats.provenance, "state_id": handle.stats.state}

    # ---- private

    def _writable(self) -> None:
        if self.mode == "r":
            raise ParameterError(f"{self.path} was opened for reading; open it with mode='a' to write")

    @contextlib.contextmanager
    def _owned(self) -> Any:
        self._writable()
        self._handle.acquire()
        try:
            if self._handle.scopes:
                raise LockedError(f"{self.path}: leave the write scope before this")
            with self._handle.lock:
                if not os.path.exists(self._handle.path):
                    raise NetworkNotFoundError(f"no network file {self.path}")
                yield
        finally:
            self._handle.release()

    def _free(self, path: str | os.PathLike[str]) -> None:
        if os.path.exists(path):
            raise NetworkExistsError(f"there is a file {path} already; remove it first")


def _write_empty(path: str, chunk_size: tuple[float, float, float] | None) -> None:
    with new_file(path) as temporary:
        with hdf5.create_file(temporary) as file:
            make_roots(file)
            file.attrs["bsb_version"] = FORMAT_VERSION
            file.attrs["bsb_hdf5_version"] = FORMAT_VERSION
            file.attrs["chunkloom_version"] = chunkloom_version()
            fresh = Statistics(generation=uuid.uuid4().bytes, state=0, chunk_size=chunk_size)
            fresh.provenance = new_provenance()
            statistics.write(fresh, file)
        os.replace(temporary, path)


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
