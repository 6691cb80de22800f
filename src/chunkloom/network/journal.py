"""The journal file: a header that names the base it belongs to, then records. See docs/design/network-journal.md.

Knows how bytes are kept, not what records mean.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from chunkloom.network.records import Record, decode, encode, size_of

_MAGIC = b"CLJOUR1\n"
_HEADER = struct.Struct("<8s16sqI")
START = _HEADER.size
"""Where the first record begins."""

_WINDOW = 64 << 20  # bytes read at a time
_VECTOR = 512  # buffers per writev; IOV_MAX is 1024 on Linux


@dataclass(frozen=True)
class Base:
    """Which state of which file a journal belongs to: the base's generation and its `state_id` (-1: it has none)."""

    generation: bytes
    state: int


class Journal:
    """An open journal. Made by `create` or `open`; `end` is where its last whole record ends."""

    def __init__(self, fd: int, base: Base, end: int) -> None:
        self.fd = fd
        self.base = base
        self.end = end

    @classmethod
    def create(cls, path: str, base: Base) -> Self:
        """A new, empty journal, in place of any that is there."""
        temporary = f"{path}.new"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        os.write(fd, header(base))
        os.replace(temporary, path)
        return cls(fd, base, START)

    @classmethod
    def open(cls, path: str) -> Self | None:
        """The journal at `path`, for reading and writing where allowed; None if there is none, or its header is cut
        short."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:  # read-only
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        base = parse_header(os.pread(fd, START, 0))
        if base is None:
            os.close(fd)
            return None
        return cls(fd, base, START)

    def new_records(self, start: int) -> Iterator[tuple[Record, int]]:
        """Whole records from offset `start` on, each with the offset it ends at."""
        window = _WINDOW
        while True:
            data = self._read(start, window)
            end = 0
            for record, end in decode(data):
                yield record, start + end
            if end == 0 and len(data) < window:
                return  # the last, or one cut short
            start += end
            window = _WINDOW if end else max(2 * window, size_of(data))

    def _read(self, start: int, size: int) -> memoryview:
        data, got = bytearray(max(0, min(size, os.fstat(self.fd).st_size - start))), 0
        while got < len(data):
            more = os.preadv(self.fd, [memoryview(data)[got:]], start + got)
            if more <= 0:
                break
            got += more
        return memoryview(data)[:got].toreadonly()

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def append(self, record: Record) -> None:
        """Add a record after the last whole one. When this returns, the kernel has it.

        Only the holder of the writer's lock may call this.
        """
        buffers, size = encode(record)
        if os.fstat(self.fd).st_size != self.end:
            os.ftruncate(self.fd, self.end)  # a writer was killed in the middle of a record
        try:
            at = self.end
            if len(buffers) <= _VECTOR and os.pwritev(self.fd, buffers, at) == size:
                self.end += size
                return
            for b in buffers:
                view = memoryview(b)
                while view:
                    done = os.pwrite(self.fd, view, at)
                    at, view = at + done, view[done:]
        except BaseException:
            os.ftruncate(self.fd, self.end)  # no space, or interrupted: nothing half
            raise
        self.end += size

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


def header(base: Base) -> bytes:
    """The header of a journal that belongs to `base`."""
    start = _HEADER.pack(_MAGIC, base.generation, base.state, 0)[:-4]
    return start + struct.pack("<I", zlib.crc32(start))


def parse_header(data: bytes) -> Base | None:
    """The base a header names; None if it is cut short or damaged."""
    if len(data) < START:
        return None
    magic, generation, state, crc = _HEADER.unpack(data[:START])
    if magic != _MAGIC or zlib.crc32(data[: START - 4]) != crc:
        return None
    return Base(generation, state)
