"""Copying one file, at the least cost of processor. Knows nothing of stores.

Past the kernel's cache where the file system can (`O_DIRECT`): a copy of a terabyte pushes nothing out of memory, what
is renamed into a store is with the disk already, and no pages are taken up and filled just to be written out.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading

# What direct writing asks of addresses and lengths, at most.
BLOCK = 4096
BUFFER = 1 << 20
_DIRECT = getattr(os, "O_DIRECT", 0)
_own = threading.local()


def copy_file(source: str, made: str) -> int:
    """Write the bytes of `source` to `made`, a file of this thread alone; returns how many there are.

    Raises
    ------
    OSError
        Where one cannot be read or the other not written.
    """
    reading = os.open(source, os.O_RDONLY)
    try:
        writing, direct = _opened(made)
        try:
            return _copy(reading, writing, direct)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _opened(made: str) -> tuple[int, bool]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if _DIRECT:
        try:
            return os.open(made, flags | _DIRECT, 0o666), True
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    return os.open(made, flags, 0o666), False


def _copy(reading: int, writing: int, direct: bool) -> int:
    buffer, size = _buffer(), 0
    while True:
        count = 0
        while count < BUFFER and (got := os.readv(reading, [buffer[count:]])):
            count += got
        if direct:
            padded = -(-count // BLOCK) * BLOCK
            try:
                _write(writing, buffer[:padded])
                if padded != count:
                    os.ftruncate(writing, size + count)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                direct = _undirected(writing, size)
        if not direct:
            _write(writing, buffer[:count])
        size += count
        if count < BUFFER:
            return size


def _undirected(writing: int, size: int) -> bool:
    """A file system that took the flag and not the write: the rest goes through the cache."""
    import fcntl

    fcntl.fcntl(writing, fcntl.F_SETFL, fcntl.fcntl(writing, fcntl.F_GETFL) & ~_DIRECT)
    os.ftruncate(writing, size)
    os.lseek(writing, size, os.SEEK_SET)
    return False


def _write(writing: int, data: memoryview) -> None:
    while data:
        data = data[os.write(writing, data) :]


def _buffer() -> memoryview:
    """Memory of this thread that begins on a page."""
    found: memoryview | None = getattr(_own, "buffer", None)
    if found is None:
        found = _own.buffer = memoryview(mmap.mmap(-1, BUFFER))
    return found
