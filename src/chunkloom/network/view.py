"""A network file's base with its journal's records applied in memory: what all reads go through."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

import h5py

from chunkloom.network import hdf5
from chunkloom.network.apply import Applier
from chunkloom.network.errors import FormatError, LockedError
from chunkloom.network.journal import START, Journal
from chunkloom.network.overlay import Overlay

Identity = tuple[int, int, int, int]


class View:
    """The base with the journal's records applied in memory, up to offset `applied`."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.path = path
        self._guards = 0
        self.identity = identity(os.fstat(fd))
        self.mode = os.fstat(fd).st_mode
        self.overlay = Overlay(fd)
        self.applied = START
        try:
            self.file = h5py.File(self.overlay, "r+", libver=hdf5.LIBVER)
        except OSError as error:
            self.overlay.close()
            raise FormatError(
                f"{path} is not an HDF5 file that can be opened ({str(error).splitlines()[0]}); expected a network file"
            ) from error

    def catch_up(self, journal: Journal) -> None:
        """Apply what the journal holds beyond `applied`."""
        applier = Applier(self.file)
        for record, end in journal.new_records(self.applied):
            if end > journal.end:
                break
            applier.apply([record])
            self.applied = end
        applier.finish()

    @contextlib.contextmanager
    def guarded(self, timeout: float) -> Iterator[None]:
        """While the base is used, engines that write in place and lock (HDF5 does, with `flock`) have to wait.

        Raises
        ------
        LockedError
            One of them has it open for writing all the time.
        """
        if self._guards == 0:
            self._lock(time.monotonic() + timeout)
        self._guards += 1
        try:
            yield
        finally:
            self._guards -= 1
            if self._guards == 0 and self.overlay.fd >= 0:
                with contextlib.suppress(OSError):
                    fcntl.flock(self.overlay.fd, fcntl.LOCK_UN)

    def _lock(self, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(self.overlay.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return  # no flock on this file system
                if time.monotonic() > deadline:
                    raise LockedError(
                        f"{self.path} is open for writing in another program (HDF5 holds its lock); close it there"
                    ) from error
                time.sleep(0.01)


def identity(stat: os.stat_result) -> Identity:
    """What changes when a file is replaced, or written in place."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_dev
