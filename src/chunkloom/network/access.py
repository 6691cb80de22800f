"""What readers and writers are handed, and the decorator that hands it to methods."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import h5py

from chunkloom.network import statistics
from chunkloom.network.errors import ParameterError
from chunkloom.network.records import Record
from chunkloom.network.statistics import Statistics

if TYPE_CHECKING:
    from chunkloom.network.handle import Handle

_F = TypeVar("_F", bound=Callable[..., Any])

OWN: Any = None
"""Default of `handle=` where `handles_handles` opens a handle for the call."""


def handles_handles(mode: Literal["r", "a"]) -> Callable[[_F], _F]:
    """Let a method take `handle=`, and open one for it when it is not given.

    The method's object has a `network` with `reading()` and `writing()`. In mode "a" a given handle must be a
    `WriteHandle`.
    """

    def decorate(method: _F) -> _F:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, handle: ReadHandle | None = None, **kwargs: Any) -> Any:
            if handle is not None:
                if mode == "a" and not isinstance(handle, WriteHandle):
                    raise ParameterError(
                        f"{method.__name__} writes: its handle must come from write_scope, not read_scope"
                    )
                with handle.held():
                    return method(self, *args, handle=handle, **kwargs)
            with self.network.reading() if mode == "r" else self.network.writing() as opened:
                return method(self, *args, handle=opened, **kwargs)

        return cast(_F, wrapper)

    return decorate


class ReadHandle:
    """What a reader works with: `file` (base and journal as one) and `stats`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def file(self) -> h5py.File:
        """The network as an HDF5 file. What is written to it is lost: write through the sets."""
        return self._handle.file()

    def file_for_many(self) -> contextlib.AbstractContextManager[h5py.File]:
        """The same file for a bulk load: opened by HDF5 itself, which is quicker, while nothing waits in the
        journal."""
        return self._handle.file_for_many()

    @property
    def stats(self) -> Statistics:
        """Counts of everything written so far."""
        return self._handle.stats()

    def held(self) -> contextlib.AbstractContextManager[Any]:
        """While nothing else of this process uses the file."""
        return self._handle.lock

    def is_network(self) -> bool:
        """Whether the HDF5 file has the groups of a network file."""
        return self._handle.has_roots(statistics.PLACEMENT, statistics.CONNECTIVITY)


class WriteHandle(ReadHandle):
    """What a writer works with: a `ReadHandle` that also takes records."""

    def submit(self, record: Record) -> None:
        """Write a record that has been checked. When this returns, a kill cannot undo it."""
        self._handle.submit(record)
