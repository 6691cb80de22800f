"""A copy-on-write image of a file: reads come from the file, writes stay in memory.

HDF5 works on it through h5py's file-object driver, so that journal records can be applied to an unchanged file and
everything read as if they were in it. Knows nothing of networks.
"""

from __future__ import annotations

import os

_PAGE = 1 << 16


class Overlay:
    """A seekable binary file over `fd`; `write` and `truncate` change pages in memory only.

    Parameters
    ----------
    fd : int
        Descriptor of the file below, open for reading. Closed by `close`.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.base_size = os.fstat(fd).st_size
        self.size = self.base_size
        self.pages: dict[int, bytearray] = {}
        self._at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:
        self.read_at(memoryview(buffer).cast("B"), self._at)
        self._at += len(buffer)
        return len(buffer)

    def read(self, size: int = -1) -> bytes:
        data = bytearray(max(0, self.size - self._at) if size < 0 else size)
        self.readinto(memoryview(data))
        return bytes(data)

    def read_at(self, view: memoryview, offset: int) -> None:
        """Fill `view` with the bytes from `offset` on; zeros past the end."""
        if not self.pages:
            self._read_base(view, offset)
            return
        done, size = 0, len(view)
        while done < size:
            number, start = divmod(offset + done, _PAGE)
            here = min(size - done, _PAGE - start)
            page = self.pages.get(number)
            if page is None:
                self._read_base(view[done : done + here], offset + done)
            else:
                view[done : done + here] = memoryview(page)[start : start + here]
            done += here

    def write(self, data: memoryview) -> int:
        view = memoryview(data).cast("B")
        done, size = 0, len(view)
        while done < size:
            number, start = divmod(self._at + done, _PAGE)
            here = min(size - done, _PAGE - start)
            self._page(number)[start : start + here] = view[done : done + here]
            done += here
        self._at += size
        self.size = max(self.size, self._at)
        return size

    def truncate(self, size: int | None = None) -> int:
        self.size = self._at if size is None else size
        return self.size

    def flush(self) -> None:
        """Nothing to do: what is written stays in memory."""

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()

    def store(self, fd: int) -> None:
        """Write the image to `fd`, which is open for writing and empty."""
        copy_bytes(self.fd, fd, min(self.base_size, self.size))
        for number, page in sorted(self.pages.items()):
            here = min(_PAGE, self.size - number * _PAGE)
            if here > 0:
                _write_whole(fd, memoryview(page)[:here], number * _PAGE)
        os.ftruncate(fd, self.size)

    def _page(self, number: int) -> bytearray:
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = bytearray(_PAGE)
            if number * _PAGE < self.base_size:
                self._read_base(memoryview(page), number * _PAGE)
        return page

    def _read_base(self, view: memoryview, offset: int) -> None:
        done = 0
        while done < len(view):
            got = os.preadv(self.fd, [view[done:]], offset + done)
            if got <= 0:
                view[done:] = bytes(len(view) - done)
                return
            done += got


def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes of a file to an empty one, inside the kernel where it can."""
    done = 0
    while done < size:
        try:
            got = os.copy_file_range(source, target, size - done, done, done)
        except OSError:  # not within one file system, or not known to it
            break
        if got <= 0:
            break
        done += got
    while done < size:
        block = os.pread(source, min(1 << 24, size - done), done)
        if not block:
            raise OSError(f"the file became shorter while it was copied: {done} of {size} bytes")
        _write_whole(target, memoryview(block), done)
        done += len(block)


def _write_whole(fd: int, view: memoryview, offset: int) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)
