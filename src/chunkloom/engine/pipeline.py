"""`Pipeline`: ops over a volume, and again a volume.

Each op is a `Stage`; a stage reads from the stage below what its op needs, pads what lies outside the data, computes,
crops, and keeps the result where the op says so. The chunks of a stage are the same bytes whoever asks for them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.chunked import ChunkedVolume, of_whole_chunks
from chunkloom.engine.op import CoarsePolicy, Op, check_chunk, check_op
from chunkloom.engine.volume import Array, Level, Volume, make_digest
from chunkloom.errors import CancelledWorkError, ChunkError, ChunkloomError, ParameterError
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.io.source import StoredArray

DEFAULT_CHUNK = (64, 64, 64)


def read_padded(
    source: Volume, level: int, box: Box, work: Work, pad: Literal["edge", "constant"] = "edge", fill: float = 0
) -> Array:
    """The voxels of `box`, which may reach outside the level.

    What lies outside is the nearest voxel inside ("edge") or `fill` ("constant"). A box wholly outside is all `fill`
    with "constant", and all the nearest voxels with "edge".
    """
    described = source.levels[level]
    inside = box.intersect(described.box)
    if inside == box:
        return source.read_box(level, box, work)
    if inside.is_empty:
        if pad == "constant":
            return np.full((*described.channels, *box.shape), fill, described.dtype)
        nearest = Box(
            tuple(min(max(b, 0), n - 1) for b, n in zip(box.lo, described.spatial_shape, strict=True)),
            tuple(min(max(h, 1), n) for h, n in zip(box.hi, described.spatial_shape, strict=True)),
        )
        inside = nearest
    found = source.read_box(level, inside, work)
    if pad == "constant":
        out = np.full((*described.channels, *box.shape), fill, found.dtype)
        out[inside.index(box.lo)] = found
        return out
    # Indexing with clamped coordinates repeats the border, on any side and however far.
    for axis in range(3):
        wanted = np.arange(box.lo[axis], box.hi[axis])
        clamped = np.clip(wanted, inside.lo[axis], inside.hi[axis] - 1) - inside.lo[axis]
        if len(clamped) != found.shape[axis - 3] or clamped[0] != 0 or clamped[-1] != len(clamped) - 1:
            found = np.take(found, clamped, axis=axis - 3)
    return found


class Stage(ChunkedVolume):
    """One op over a volume, as a volume."""

    def __init__(
        self, source: Volume, op: Op, *, levels: int | None = None, chunk: Sequence[int], cache: ChunkCache | None
    ) -> None:
        super().__init__(cache)
        self.source = source
        op = op.bind(source, chunk)
        finest = source.levels[0].grid.voxel_size_nm
        self._ops: list[Op] = []
        made: list[Level] = []
        for level in source.levels[:levels]:
            factor = [a / b for a, b in zip(level.grid.voxel_size_nm, finest, strict=True)]
            scaled = op if not made else op.at_level(factor)
            out = scaled.output_level(level)
            size = scaled.block or tuple(chunk)
            made.append(dataclasses.replace(out, chunk_shape=(*out.channels, *size)))
            check_op(scaled, made[-1])
            self._ops.append(scaled)
        self.op = op
        self.levels = tuple(made)
        self.kind = op.output_kind or source.kind
        self.seams = op.seams
        self.warnings = source.warnings

    @cached_property
    def stage_digest(self) -> str:
        grids = [level.describe() for level in self.levels]
        return make_digest([self.source.stage_digest, self.op.identity(), grids])

    @property
    def parts(self) -> tuple[Volume, ...]:
        return (self.source,)

    def state(self, level: int, box: Box) -> str:
        op, below = self._ops[level], self.source.levels[level].box
        if not self.keeps(level):
            return self.source.state(level, _near(op.needs(box), below))
        # Chunk by chunk: a block may need more, or less, than the box of all of them.
        chunks = box.chunk_range(self.levels[level].spatial_chunk)
        if chunks.size > 1:
            first, last = (Box.of_chunk(i, self.levels[level].spatial_chunk) for i in (chunks.lo, _last(chunks)))
            begin, end = op.needs(_computed(op, first)), op.needs(_computed(op, last))
            return self.source.state(level, _near(Box(begin.lo, end.hi), below))
        whole = of_whole_chunks(self.levels[level], box)
        return self.source.state(level, _near(op.needs(_computed(op, whole)), below))

    def cost(self, level: int) -> int:
        return int(self.op.dear) + self.source.cost(level)

    def keeps(self, level: int) -> bool:
        op = self._ops[level]
        return op.cache or op.block is not None

    def takes_long(self, level: int) -> bool:
        return self.op.dear

    def note(self, level: int, index: tuple[int, int, int], chunk: Array) -> None:
        if level == 0 and self.seams is not None:
            self.op.note(index, chunk)

    def compute(self, level: int, box: Box, work: Work) -> Array:
        op = self._ops[level]
        whole = _computed(op, box)
        needed = op.needs(whole)
        if op.pad == "cut":
            needed = needed.intersect(self.source.levels[level].box)
            data = self.source.read_box(level, needed, work)
        else:
            data = read_padded(self.source, level, needed, work, op.pad)
        work.check()
        out = self._run(op, data, whole, level, work)
        described = self.levels[level]
        expected = (*described.channels, *whole.shape)
        if out.shape != expected and out.shape[-3:] == needed.shape:
            out = out[whole.index(needed.lo)]
        where = f"level {level}, voxels {whole}"
        if out.shape != expected:
            raise ParameterError(f"op {op.describe()['op']!r} made shape {out.shape} at {where}: expected {expected}")
        if out.dtype != described.dtype:
            raise ParameterError(
                f"op {op.describe()['op']!r} made {out.dtype} at {where}: it declares {described.dtype}"
            )
        return out if whole is box else out[box.index(whole.lo)]

    def _run(self, op: Op, data: Array, box: Box, level: int, work: Work) -> Array:
        try:
            return op.run(data, box, level, work)
        except CancelledWorkError:
            raise
        except Exception as error:
            said = str(error) if isinstance(error, ChunkloomError) else f"{type(error).__name__}: {error}"
            raise ChunkError(f"op {op.describe()['op']!r} failed at level {level}, voxels {box}: {said}") from error


def _computed(op: Op, box: Box) -> Box:
    """What is computed for a box: an op with a block computes it whole where the data ends inside it, unless it wants
    it cut there."""
    if op.block is None or op.pad == "cut":
        return box
    return Box(box.lo, tuple(b + n for b, n in zip(box.lo, op.block, strict=True)))


def _last(chunks: Box) -> tuple[int, ...]:
    return tuple(n - 1 for n in chunks.hi)


def _near(box: Box, within: Box) -> Box:
    """What a read of `box` looks at: the part inside, or the nearest voxels where it lies outside."""
    lo = tuple(min(max(b, 0), n - 1) for b, n in zip(box.lo, within.hi, strict=True))
    hi = tuple(max(min(h, n), b + 1) for h, n, b in zip(box.hi, within.hi, lo, strict=True))
    return Box(lo, hi)


class Pyramid(ChunkedVolume):
    """A volume with coarser levels made from its finest one: mean for images, the most frequent value for labels.

    Each level halves the axes whose voxels are the smallest, until the level fits in one chunk. Level k is made from
    level k - 1.
    """

    def __init__(self, source: Volume, *, chunk: Sequence[int] | None = None, cache: ChunkCache | None = None) -> None:
        super().__init__(cache)
        self.source = source
        self.kind = source.kind
        self.warnings = source.warnings
        self.seams = source.seams
        finest = source.levels[0]
        size = tuple(chunk or finest.spatial_chunk)
        self._factors: list[tuple[int, ...]] = [(1, 1, 1)]
        levels = [finest]
        while any(n > c for n, c in zip(levels[-1].spatial_shape, size, strict=True)):
            factor = halving(levels[-1])
            last = levels[-1]
            shape = tuple(-(-n // f) for n, f in zip(last.spatial_shape, factor, strict=True))
            levels.append(
                dataclasses.replace(
                    last,
                    shape=(*last.channels, *shape),
                    chunk_shape=(*last.channels, *size),
                    grid=last.grid.downsampled(factor),
                )
            )
            self._factors.append(factor)
        self.levels = tuple(levels)
        if len(levels) > 1:
            check_chunk(levels[1])

    @cached_property
    def stage_digest(self) -> str:
        return make_digest([self.source.stage_digest, "pyramid", self.kind, [x.describe() for x in self.levels]])

    def keeps(self, level: int) -> bool:
        return level > 0

    def takes_long(self, level: int) -> bool:
        return level > 0

    def cost(self, level: int) -> int:
        fine = math.prod(math.prod(factor) for factor in self._factors[1 : level + 1])
        # Reading is cheap, but a chunk of a far level reads a great part of the volume.
        return self.source.cost(0) * fine or fine // 64

    @property
    def parts(self) -> tuple[Volume, ...]:
        return (self.source,)

    def state(self, level: int, box: Box) -> str:
        while level > 0:
            whole, factor = of_whole_chunks(self.levels[level], box), self._factors[level]
            lo = tuple(b * f for b, f in zip(whole.lo, factor, strict=True))
            hi = tuple(h * f for h, f in zip(whole.hi, factor, strict=True))
            level -= 1
            box = Box(lo, hi).intersect(self.levels[level].box)
        return self.source.state(0, box)

    @property
    def own_levels(self) -> int:
        return 1

    def stored(self, level: int) -> StoredArray | None:
        return self.source.stored(0) if level == 0 else None

    def compute(self, level: int, box: Box, work: Work) -> Array:
        if level == 0:
            return self.source.read_box(0, box, work)
        from chunkloom.kernels import downsample

        factor = self._factors[level]
        fine = Box(
            tuple(b * f for b, f in zip(box.lo, factor, strict=True)),
            tuple(h * f for h, f in zip(box.hi, factor, strict=True)),
        ).intersect(self.levels[level - 1].box)
        data = self.read_box(level - 1, fine, work)
        work.check()
        return downsample.mean(data, factor) if self.kind == "image" else downsample.mode(data, factor)


def halving(level: Level) -> tuple[int, ...]:
    """2 on the axes whose voxels are less than twice the smallest (of those longer than one voxel), else 1."""
    size = level.grid.voxel_size_nm
    long = [v for v, n in zip(size, level.spatial_shape, strict=True) if n > 1]
    smallest = min(long)
    return tuple(2 if n > 1 and v < 2 * smallest else 1 for v, n in zip(size, level.spatial_shape, strict=True))


class Pipeline(Volume):
    """Ops over a volume, one after the other.

    Parameters
    ----------
    volume
        What the first op reads.
    ops
        In order. None of them leaves the volume as it is (with coarser levels where it has none).
    coarse
        What coarser levels are: "op" (the ops over the source's coarser levels) or "downsample" (of the fine result).
        Default: "op" where every op and the source allow it. Part of the digest, and named in the metadata.
    chunk
        Chunk shape z, y, x of the result. Default: a model's block, else the source's chunk shape where it suits
        viewing, else 64, 64, 64.
    cache
        Where chunks are kept; the process's own when left out.

    Examples
    --------
    >>> from chunkloom import Pipeline, array_volume, ops
    >>> import numpy as np
    >>> volume = array_volume(np.arange(64**3, dtype="uint8").reshape(64, 64, 64), voxel_size_nm=(8, 8, 8))
    >>> Pipeline(volume, [ops.Threshold(low=120)]).read().dtype
    dtype('uint8')
    """

    def __init__(
        self,
        volume: Volume,
        ops: Sequence[Op] = (),
        *,
        coarse: CoarsePolicy | None = None,
        chunk: Sequence[int] | None = None,
        cache: ChunkCache | None = None,
    ) -> None:
        policy: CoarsePolicy = coarse or (
            "op" if len(volume.levels) > 1 and all(op.coarse == "op" for op in ops) else "downsample"
        )
        if chunk is not None and not ops and any(level.spatial_chunk != tuple(chunk) for level in volume.levels):
            ops = [Op()]  # the voxels as they are, on another grid
        self.coarse = policy
        self.source = volume
        self.ops = tuple(ops)
        stages: list[Volume] = [volume]
        for op in ops:
            previous = stages[-1].levels[0].spatial_chunk
            size = chunk or (previous if viewable(previous) else DEFAULT_CHUNK)
            limit = 1 if policy == "downsample" else None
            stages.append(Stage(stages[-1], op, levels=limit, chunk=size, cache=cache))
        if policy == "downsample":
            last = stages[-1].levels[0].spatial_chunk
            size = chunk or (last if viewable(last) else DEFAULT_CHUNK)
            stages.append(Pyramid(stages[-1], chunk=size, cache=cache))
        self.stages = tuple(stages[1:])
        last_stage = stages[-1]
        self.levels = last_stage.levels
        self.kind = last_stage.kind
        self.seams = last_stage.seams
        self.warnings = last_stage.warnings
        self._last = last_stage

    @property
    def stage_digest(self) -> str:
        return self._last.stage_digest

    @property
    def parts(self) -> tuple[Volume, ...]:
        return (self._last,)

    def state(self, level: int, box: Box) -> str:
        return self._last.state(level, box)

    @property
    def own_levels(self) -> int:
        return self._last.own_levels

    def cost(self, level: int) -> int:
        return self._last.cost(level)

    def stored(self, level: int) -> StoredArray | None:
        return self._last.stored(level)

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        return self._last.read_box(level, box, work)


def viewable(chunk: Sequence[int]) -> bool:
    """Whether chunks of this shape suit looking: no axis thin or long, no more than 4 Mi voxels."""
    return all(8 <= n <= 256 for n in chunk) and math.prod(chunk) <= 4 << 20
