"""`materialize`: write a volume, or a box of it, to a store that every reader opens.

Decide, then act: a `Request` (arrays, regions, metadata, identity) and its plans are made before anything is touched;
what is at the target already decides whether the run begins, goes on, replaces or refuses; then arrays are written one
after the other. How a store becomes finished: its mark is taken off last, then its record.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.formats.base import DEFAULT_CODEC, codec_names
from chunkloom.engine.volume import Level, Volume
from chunkloom.engine.writing import start
from chunkloom.engine.writing.documents import FORMATS, StoreDescription
from chunkloom.engine.writing.lock import locked
from chunkloom.engine.writing.plan import ArrayPlan, plan_array
from chunkloom.engine.writing.pyramid import Halved, coarser, coarser_box
from chunkloom.engine.writing.record import Identity, Record
from chunkloom.engine.writing.region import Extent, Region, region_of, voxel_box
from chunkloom.engine.writing.run import ArrayWriter, Cancel, Counts, Job, Progress, Stop
from chunkloom.engine.writing.target import BucketTarget, LocalTarget, open_target
from chunkloom.errors import CancelledWorkError, ParameterError, nearest
from chunkloom.geometry import Box

Target = str | os.PathLike[str]
BoxLike = Box | Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Materialized:
    """What a run wrote. Of several arrays, `shape` to `hi` are the first one's.

    Attributes
    ----------
    target, format
        Where, and the format word.
    shape, chunk
        Of the array, channel axes first.
    lo, hi
        The box in voxels of its level: as asked for, or with extent "level" rounded out to whole chunks.
    done, written, skipped
        Chunks finished; of those, in files; and left out because they hold nothing but the fill value.
    bytes
        Bytes of the chunk files.
    seconds
        How long this run took.
    """

    target: str
    format: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    done: int
    written: int
    skipped: int
    bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


@dataclass(frozen=True)
class MaterializePlan:
    """What a materialize will do: the plan of each array, in the order they are written.

    `memory_limit` is what was asked for, None for the default. A dry run prints `lines()`.
    """

    target: str
    format: str
    codec: str
    arrays: tuple[tuple[str, Region, ArrayPlan], ...]
    memory_limit: int | None

    @property
    def peak_bytes(self) -> int:
        return max(plan.peak_bytes for _, _, plan in self.arrays)

    def lines(self) -> list[str]:
        """For people, a line each."""
        told = [f"{self.target}: {self.format}, {self.codec}"]
        for path, region, plan in self.arrays:
            files = "" if plan.files == plan.total else f" in {plan.files} files"
            told.append(
                f"  {path}: {' x '.join(map(str, region.array.shape))} {region.array.dtype.name}, "
                f"{plan.needed} chunks to compute, {plan.total} to write{files}, "
                f"at most {size_text(plan.bytes_at_most)}"
            )
            if plan.in_memory is not None:
                told.append(
                    f"    up to {plan.held} chunks wait for their last part: {plan.in_memory} in memory, the others on "
                    f"disk beside the target ({size_text(plan.disk_bytes)})"
                )
            elif plan.held:
                told.append(f"    up to {plan.held} chunks wait for their last part, in memory")
        told.append(f"  memory at most about {size_text(self.peak_bytes)}")
        return told

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "target": self.target,
            "format": self.format,
            "codec": self.codec,
            "peak_bytes": self.peak_bytes,
            "arrays": [
                {"path": path, "shape": list(region.array.shape), **plan.to_dict()}
                for path, region, plan in self.arrays
            ],
        }


@dataclass(frozen=True)
class Request:
    """Everything that was asked for, checked."""

    volume: Volume
    store: StoreDescription
    regions: tuple[Region, ...]
    factors: tuple[tuple[int, ...] | None, ...]
    identity: Identity
    plan: MaterializePlan
    skip_empty: bool


def size_text(count: int) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def plan_materialize(volume: Volume, target: Target, **options: Any) -> MaterializePlan:
    """What `materialize` with these arguments would do. Touches nothing."""
    for name in ("overwrite", "resume", "progress", "cancel"):
        options.pop(name, None)
    return _request(volume, target, **options).plan


def materialize(
    volume: Volume,
    target: Target,
    *,
    box: BoxLike | None = None,
    extent: Extent = "box",
    levels: Sequence[int] | None = None,
    format: str = "zarr3",
    codec: str | None = None,
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | None = None,
    pyramid: int | None = None,
    skip_empty: bool = True,
    fill_value: Any = 0,
    overwrite: bool = False,
    resume: bool = True,
    concurrency: int | None = None,
    memory_limit: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancel: Cancel | None = None,
    name: str | None = None,
) -> Materialized:
    """Write a volume, or a box of it, to a store.

    Each served chunk is computed once. While the run goes on the store's root attributes hold `chunkloom_unfinished`;
    a run that died is gone on with by the same call.

    Parameters
    ----------
    target
        A folder, `s3://` or `gs://`. Its last part without suffix is the name in the metadata, unless `name` is given.
    box
        Voxels z, y, x of the first level written, half-open; None on a side is the level's. Clipped to the level,
        rounded out to whole voxels. Other levels get the voxels that touch it.
    extent
        "box": the array is exactly the box. "level": the array has the level's shape, and the box, rounded out to
        whole chunks, is written into it; several boxes may be.
    levels
        Which levels of the volume; the finest, [0], when left out. Written as `0`, `1`, … (N5: `s0`, `s1`, …).
    format
        "zarr2", "zarr3", "n5" or "precomputed".
    codec
        "none", "zstd", "blosc" or "gzip". Default: zstd; precomputed is written raw.
    chunk, shard
        Chunk shape z, y, x (default: the volume's), and shard shape, a multiple of it (zarr3; default: no shards).
    pyramid
        How many further levels to make, each of the written one before: mean for images, mode for labels.
    skip_empty
        Leave out chunks whose every voxel is `fill_value`.
    overwrite
        Replace what is there. A run of the same identity that did not end is gone on with even so.
    resume
        Go on where a run of the same identity stopped; else begin anew.
    concurrency
        Threads. Default: one per core.
    memory_limit
        Bytes of memory, chunks that the volume keeps among them. Beyond it, partial chunks wait on disk beside the
        target. Default: 1 GiB, without what the volume keeps.
    attributes
        More attributes of the store's root.
    progress
        Called with a `Progress` once the metadata are there, then for each served chunk, after what it completes is
        written. Calls come one at a time, from the threads of the run.
    cancel
        Something with `is_set()`, such as a `threading.Event`: when it is set the run stops, and what is written stays.

    Raises
    ------
    ParameterError, FormatError
        Options that do not fit, before anything is touched.
    ConflictError
        The target holds something else, or another run is writing it.
    ChunkError
        A chunk could not be made; the message names it.
    WriteError, AccessError
        Something could not be written.
    CancelledWorkError
        `cancel` was set.
    """
    began = time.monotonic()
    request = _request(
        volume,
        target,
        box=box,
        extent=extent,
        levels=levels,
        format=format,
        codec=codec,
        chunk=chunk,
        shard=shard,
        pyramid=pyramid,
        skip_empty=skip_empty,
        fill_value=fill_value,
        concurrency=concurrency,
        memory_limit=memory_limit,
        attributes=attributes,
        name=name,
    )
    stop = Stop(cancel)
    place = open_target(target)
    with locked(place):
        found = start.look(place, request.store)
        action = start.decide(found, request.identity, request.store, overwrite=overwrite, resume=resume)
        if isinstance(action, start.Done):
            start.tidy(place, keep=True)
            return _result(request, Progress(**action.counts), began)
        start.prepare(place, found, action)
        counts = _write(request, place, action, progress, stop)
    return _result(request, counts, began)


def _write(
    request: Request,
    place: LocalTarget | BucketTarget,
    action: start.Begin,
    progress: Callable[[Progress], None] | None,
    stop: Stop,
) -> Progress:
    """Metadata with the mark, arrays, metadata without it."""
    store, identity = request.store, request.identity
    record = Record(place.beside, identity, sum(region.pieces.size for region in request.regions))
    counts = Counts(sum(region.total for region in request.regions), progress)
    try:
        _check(stop, request, counts)
        others = {run.run: run.box for run in action.beside}
        for key, text in store.documents({**others, identity.run: identity.box}).items():
            place.write(key, text)
        writers = [
            ArrayWriter(job, store, place, record, skip_empty=request.skip_empty, counts=counts, stop=stop)
            for job in _jobs(request, place, counts, stop)
        ]
        for writer in writers:
            writer.take_stock()
        counts.report()
        with _caches_limited(request):
            for writer in writers:
                _check(stop, request, counts)
                writer.run()
        _check(stop, request, counts)
        record.save()
        final = counts.snapshot()
        place.write(store.root_document, store.documents(others)[store.root_document])
        place.remember(json.dumps({"identity": asdict(identity), "counts": asdict(final)}))
        record.remove()
        start.tidy(place, keep=bool(others))
        return final
    except BaseException:
        if not record.finished:
            record.save()
        raise
    finally:
        record.close()


def _check(stop: Stop, request: Request, counts: Counts) -> None:
    if stop.asked:
        raise CancelledWorkError(
            f"materialize to {request.plan.target} was stopped: {counts.done} of {counts.total} chunks are there; "
            "the same call goes on from them"
        )


def _jobs(request: Request, place: LocalTarget | BucketTarget, counts: Counts, stop: Stop) -> list[Job]:
    jobs, first = [], 0
    for number, (region, factor) in enumerate(zip(request.regions, request.factors, strict=True)):
        plan = request.plan.arrays[number][2]
        opened = _computed(request, counts, stop) if factor is None else _written(request, place, number, factor)
        jobs.append(Job(opened, region, plan, number, first))
        first += region.pieces.size
    return jobs


def _computed(request: Request, counts: Counts, stop: Stop) -> Callable[[], Volume]:
    """The volume that was asked for; where its objects are joined over chunks, with one id for each."""
    if request.volume.seams is None:
        return lambda: request.volume

    def joined() -> Volume:
        from chunkloom.engine.finalize import finalize
        from chunkloom.engine.sweep import in_threads

        region, each = request.regions[0], in_threads(request.plan.arrays[0][2].concurrency)
        counts.needed += region.chunks.size
        return finalize(request.volume, region.box, each=each, work=stop, progress=lambda *_: counts.report(1))

    return joined


def _written(
    request: Request, place: LocalTarget | BucketTarget, number: int, factor: tuple[int, ...]
) -> Callable[[], Volume]:
    """A coarser version of the array before this one, once that is written."""

    def written() -> Volume:
        from chunkloom.engine.sources import open_volume

        store = open_volume(f"{request.store.format}://{place.name}", kind=request.store.kind)
        return Halved(store, number - 1, request.regions[number].level, factor, request.store.kind)

    return written


def _result(request: Request, counts: Progress, began: float) -> Materialized:
    first = request.regions[0]
    return Materialized(
        target=request.plan.target,
        format=request.store.format,
        shape=first.array.shape,
        chunk=first.array.chunk_shape,
        lo=first.box.lo,
        hi=first.box.hi,
        done=counts.done,
        written=counts.written,
        skipped=counts.done - counts.written,
        bytes=counts.bytes,
        seconds=time.monotonic() - began,
    )


def _request(
    volume: Volume,
    target: Target,
    *,
    box: BoxLike | None = None,
    extent: Extent = "box",
    levels: Sequence[int] | None = None,
    format: str = "zarr3",
    codec: str | None = None,
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | None = None,
    pyramid: int | None = None,
    skip_empty: bool = True,
    fill_value: Any = 0,
    concurrency: int | None = None,
    memory_limit: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Request:
    word = {"zarr": "zarr2"}.get(format, format)
    if word not in FORMATS:
        raise ParameterError(f"unknown format {format!r}: {nearest(format, FORMATS)}")
    packing = codec or ("none" if word == "precomputed" else DEFAULT_CODEC)
    if packing not in codec_names():
        raise ParameterError(f"unknown codec {packing!r}: {nearest(packing, codec_names())}")
    for option, value in (("concurrency", concurrency), ("memory_limit", memory_limit), ("pyramid", pyramid)):
        least = 0 if option == "pyramid" else 1
        if value is not None and (not isinstance(value, int) or value < least):
            raise ParameterError(f"{option} is {value!r}: expected a whole number of at least {least}")
    regions = _regions(volume, box, extent, levels, chunk, shard)
    factors: list[tuple[int, ...] | None] = [None] * len(regions)
    for _ in range(pyramid or 0):
        last = regions[-1]
        level, factor = coarser(last.array)
        if all(n == 1 for n in last.array.spatial_shape):
            break
        covered = level.box if extent == "box" else coarser_box(last.box, factor)
        regions.append(region_of(level, 0, covered, extent="level", chunk=chunk, shard=shard))
        factors.append(factor)
    shards = tuple(region.piece if shard is not None else None for region in regions)
    store = StoreDescription(
        format=word,
        codec=packing,
        name=name or store_name(target),
        kind=volume.kind,
        arrays=tuple(region.array for region in regions),
        fill_value=fill_value,
        shards=shards,
        attributes=attributes or {},
    )
    documents = store.documents()
    lanes = concurrency or _cores()
    plans = [plan_array(region, concurrency=lanes, memory_limit=memory_limit) for region in regions]
    plan = MaterializePlan(
        target=os.fspath(target),
        format=word,
        codec=packing,
        arrays=tuple((store.path(i), r, p) for i, (r, p) in enumerate(zip(regions, plans, strict=True))),
        memory_limit=memory_limit,
    )
    identity = Identity(
        volume=volume.digest,
        metadata=_digest(documents, skip_empty),
        box="; ".join(str(region.box) for region in regions),
        extent=extent,
    )
    return Request(volume, store, tuple(regions), tuple(factors), identity, plan, skip_empty)


def _regions(
    volume: Volume,
    box: BoxLike | None,
    extent: Extent,
    levels: Sequence[int] | None,
    chunk: Sequence[int] | None,
    shard: Sequence[int] | None,
) -> list[Region]:
    """One for each level that is written, finest first."""
    numbers = sorted({0} if levels is None else set(levels))
    if not numbers:
        raise ParameterError("levels is empty: name at least one level, 0 is the finest")
    if volume.seams is not None and numbers != [0]:
        raise ParameterError(
            f"levels is {numbers}: objects that are joined over chunks get their ids at the finest level; write level "
            "0, and make coarser ones with pyramid"
        )
    first = volume.level(numbers[0])
    voxels = voxel_box(first, box)
    regions = []
    for number in numbers:
        level = volume.level(number)
        covered = voxels if number == numbers[0] else _on_level(voxels, first, level)
        regions.append(region_of(level, number, covered, extent=extent, chunk=chunk, shard=shard))
    return regions


def _on_level(box: Box, first: Level, level: Level) -> Box:
    """The voxels of another level that touch a box of the first; all where the box is all."""
    if box == first.box:
        return level.box
    touched = level.grid.world_to_covering_box(first.grid.box_to_world(box))
    return voxel_box(level, touched)


def store_name(target: Target) -> str:
    """A store's name from where it is written: the last part, without its suffix."""
    last = re.split(r"[/\\]", os.fspath(target).rstrip("/\\"))[-1]
    stem = re.sub(r"\.(ome\.zarr|zarr|n5|precomputed)$", "", last)
    return stem or "volume"


def _digest(documents: Mapping[str, bytes], skip_empty: bool) -> str:
    found = hashlib.sha256(f"skip_empty={skip_empty}".encode())
    for key, text in documents.items():
        found.update(key.encode() + b"\0" + text)
    return found.hexdigest()[:16]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _caches_limited:  # noqa: N801 - used as a function
    """While the block runs, what the volume keeps stays within the plan's share."""

    def __init__(self, request: Request) -> None:
        shares = [plan.cache_bytes for _, _, plan in request.plan.arrays if plan.cache_bytes is not None]
        self._share = min(shares) if shares else None
        self._caches = caches_of(request.volume) if shares else []
        self._limits = [cache.kept.limit for cache in self._caches]

    def __enter__(self) -> None:
        for cache in self._caches:
            assert self._share is not None
            cache.kept.shrink(min(cache.kept.limit, self._share // len(self._caches)))

    def __exit__(self, *_: object) -> None:
        for cache, limit in zip(self._caches, self._limits, strict=True):
            cache.kept.limit = limit


def caches_of(volume: Volume) -> list[ChunkCache]:
    """Every cache that a volume or what it is made of keeps chunks in."""
    from chunkloom.engine.chunked import process_cache

    found: dict[int, ChunkCache] = {id(process_cache()): process_cache()}
    waiting: list[Any] = [volume]
    while waiting:
        one = waiting.pop()
        cache = getattr(one, "cache", None)
        if isinstance(cache, ChunkCache):
            found[id(cache)] = cache
        waiting += [v for v in (getattr(one, "source", None), *getattr(one, "stages", ())) if isinstance(v, Volume)]
    return list(found.values())


__all__ = [
    "MaterializePlan",
    "Materialized",
    "Progress",
    "materialize",
    "plan_materialize",
]
