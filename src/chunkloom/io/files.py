"""One file read in pieces, local or remote, for the formats that are one file (HDF5, TIFF)."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast

from chunkloom.errors import AccessError, ChunkloomError, ChunkReadError, FormatError, VolumeNotFoundError
from chunkloom.io import remote
from chunkloom.io.paths import Location

# Remote files are fetched in blocks of this size; the most recent ones are kept.
_BLOCK = 2**18
_KEPT = 128


@contextlib.contextmanager
def reading(where: str, kind: str) -> Iterator[None]:
    """Turns whatever a library raises over a broken file into a `FormatError` that names the file."""
    try:
        yield
    except (ChunkloomError, MemoryError):
        raise
    except Exception as error:  # the libraries raise what their parsing meets
        said = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise FormatError(f"{where} is not a readable {kind} file: {said}") from error


class ByteSource(Protocol):
    """A file whose bytes can be read at any place, from many threads at once."""

    size: int
    state: str

    def read_at(self, offset: int, count: int) -> bytes: ...


def open_source(location: Location) -> ByteSource:
    """The file at `location`.

    Raises
    ------
    VolumeNotFoundError
        When there is no such file.
    AccessError, ChunkReadError
        When it may not or cannot be read.
    """
    if location.is_local:
        return LocalSource(location.base)
    return RemoteSource(location)


class LocalSource:
    """A local file."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - open for as long as this is
            found = os.fstat(self._file.fileno())
        except FileNotFoundError as error:
            raise VolumeNotFoundError(f"no such path: {path}") from error
        except IsADirectoryError as error:
            raise VolumeNotFoundError(f"not a volume: {path} is a folder, expected a file") from error
        except PermissionError as error:
            raise AccessError(f"{path} cannot be read: permission denied. Check the rights of this file") from error
        self.size = found.st_size
        self.state = f"{found.st_mtime_ns}-{found.st_size}"

    def read_at(self, offset: int, count: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), count, offset)
        except OSError as error:
            raise ChunkReadError(f"{self._path} cannot be read at {offset}: {error.strerror or error}") from error


class RemoteSource:
    """A remote file, fetched by ranges."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        found = remote.size_of(location)
        if found is None:
            raise VolumeNotFoundError(f"no volume at {location.text}: there is no such file. Check the address")
        self.size, self.state = found

    def read_at(self, offset: int, count: int) -> bytes:
        end = min(offset + count, self.size)
        if end <= offset:
            return b""
        if count > 8 * _BLOCK:
            return self._fetch(offset, end)
        parts = []
        for number in range(offset // _BLOCK, -(-end // _BLOCK)):
            begin = number * _BLOCK
            parts.append(self._block(number)[max(0, offset - begin) : end - begin])
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        with self._lock:
            held = self._blocks.get(number)
            if held is not None:
                self._blocks.move_to_end(number)
                return held
        begin = number * _BLOCK
        fetched = self._fetch(begin, min(begin + _BLOCK, self.size))
        with self._lock:
            self._blocks[number] = fetched
            while len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        return fetched

    def _fetch(self, begin: int, end: int) -> bytes:
        found = remote.read_range(self._location, "", begin, end)
        if found is None or len(found) != end - begin:
            have = 0 if found is None else len(found)
            raise ChunkReadError(f"{self._location}: asked for bytes {begin} to {end}, and {have} came")
        return found


class SourceFile(io.RawIOBase):
    """A `ByteSource` as a Python file, for libraries that read one."""

    def __init__(self, source: ByteSource, name: str) -> None:
        super().__init__()
        self.name = name
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._source.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._source.read_at(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def binary(self) -> BinaryIO:
        """This, for functions typed to take any binary file."""
        return cast(BinaryIO, self)
