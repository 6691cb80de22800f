"""Voxels of TIFF pages: only the strips and tiles that a box touches are read and decoded."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import ChunkloomError, ChunkReadError, MissingExtraError
from chunkloom.geometry import Box
from chunkloom.io.chunkwise import workers
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.store import Store
from chunkloom.io.tiff import TiffPages

# tifffile's normal form of a page: separate samples, depth, length, width, contiguous samples.
_NORMAL = 5


class TiffReader:
    """Reads boxes of one level. Thread-safe."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._layout = layout
        self._details: TiffPages = layout.details
        self._where = str(store)
        self._local = store.location.is_local
        keyframe = self._details.keyframe
        self._tile = (
            (keyframe.tiledepth, keyframe.tilelength, keyframe.tilewidth)
            if keyframe.is_tiled
            else (1, max(1, min(keyframe.rowsperstrip, keyframe.imagelength)), keyframe.imagewidth)
        )

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """As `TensorstoreReader.read_into`."""
        leading = self._details.leading
        planes = Box(box.lo[: len(leading)], box.hi[: len(leading)])
        within = Box(box.lo[len(leading) :], box.hi[len(leading) :])
        work = [
            (
                int(np.ravel_multi_index(index, leading)) if leading else 0,
                out[tuple(i - b for i, b in zip(index, planes.lo, strict=True))],
            )
            for index in planes.indices()
        ]
        if len(work) == 1:
            self._read_page(work[0][0], work[0][1], within)
            return
        for _ in workers(self._local).map(lambda item: self._read_page(item[0], item[1], within), work):
            pass

    def _read_page(self, number: int, out: NDArray[Any], box: Box) -> None:
        try:
            self._read_whole_or_segments(number, out, box)
        except ChunkloomError:
            raise
        except Exception as error:  # tifffile and its decoders raise what they meet
            if "imagecodecs" in str(error):
                raise MissingExtraError(
                    f"{self._where} is compressed with {self._layout.codec}: reading it needs imagecodecs: "
                    'pip install "chunkloom[tiff]"'
                ) from error
            said = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
            raise ChunkReadError(f"{self._where}, plane {number}: cannot be read: {said}") from error

    def _read_whole_or_segments(self, number: int, out: NDArray[Any], box: Box) -> None:
        if self._details.offset is not None:
            self._read_contiguous(number, out, box)
            return
        with self._details.lock:
            page = self._details.pages[number]
        if page is None:
            out[...] = self._layout.fill
            return
        keyframe = self._details.keyframe
        source = getattr(page, "chunkloom_source", None) or self._details.sources[0]
        missing = [i for i, n in enumerate(keyframe.shaped) if n == 1][: _NORMAL - len(keyframe.shape)]
        ranges = iter(zip(box.lo, box.hi, strict=True))
        normal = [(0, 1) if i in missing else next(ranges) for i in range(_NORMAL)]
        target = np.expand_dims(out, tuple(missing))
        for index in self._segments(normal):
            self._read_segment(page, source, index, target, normal)

    def _segments(self, normal: list[tuple[int, int]]) -> list[int]:
        """Numbers of the segments that touch a range of a page in normal form."""
        shaped = self._details.keyframe.shaped
        counts = [-(-shaped[1 + i] // self._tile[i]) for i in range(3)]
        touched = [range(normal[1 + i][0] // self._tile[i], -(-normal[1 + i][1] // self._tile[i])) for i in range(3)]
        return [
            ((s * counts[0] + d) * counts[1] + h) * counts[2] + w
            for s in range(*normal[0])
            for d, h, w in itertools.product(*touched)
        ]

    def _read_segment(
        self, page: Any, source: Any, index: int, target: NDArray[Any], normal: list[tuple[int, int]]
    ) -> None:
        keyframe = self._details.keyframe
        count = page.databytecounts[index]
        if count > source.size:
            raise ChunkReadError(f"{self._where}, segment {index}: declares {count} bytes, the file has {source.size}")
        raw = source.read_at(page.dataoffsets[index], count) if count else None
        options: dict[str, Any] = {"_fullsize": keyframe.is_tiled}
        if keyframe.compression in (6, 7, 34892, 33007):  # JPEG keeps tables outside its segments
            options.update(jpegtables=page.jpegtables, jpegheader=keyframe.jpegheader)
        segment, (s, d, h, w, _), shape = keyframe.decode(raw, index, **options)
        begin = (s, d, h, w, 0)
        size = (1, *shape)
        if segment is not None:
            segment = segment[np.newaxis]
        part_lo = [max(a, b) for (a, _), b in zip(normal, begin, strict=True)]
        part_hi = [min(a, b + n) for (_, a), b, n in zip(normal, begin, size, strict=True)]
        if any(b >= h for b, h in zip(part_lo, part_hi, strict=True)):
            return
        view = target[tuple(slice(b - r[0], h - r[0]) for b, h, r in zip(part_lo, part_hi, normal, strict=True))]
        if segment is None:
            view[...] = keyframe.nodata
        else:
            view[...] = segment[tuple(slice(b - o, h - o) for b, h, o in zip(part_lo, part_hi, begin, strict=True))]

    def _read_contiguous(self, number: int, out: NDArray[Any], box: Box) -> None:
        """Rows of an image that lies in the file in one piece, uncompressed."""
        shape = tuple(self._details.keyframe.shape)
        item = self._layout.stored_dtype.itemsize
        row = math.prod(shape[1:]) * item
        start = (self._details.offset or 0) + number * math.prod(shape) * item
        begin, end = start + box.lo[0] * row, start + box.hi[0] * row
        raw = self._details.sources[0].read_at(begin, min(end, self._details.sources[0].size) - begin)
        if len(raw) != end - begin:
            raise ChunkReadError(
                f"{self._where} ends too early: expected {end} bytes, it has {self._details.sources[0].size}"
            )
        rows = np.frombuffer(raw, self._layout.stored_dtype).reshape((box.shape[0], *shape[1:]))
        out[...] = rows[(slice(None), *Box(box.lo[1:], box.hi[1:]).slices())]
