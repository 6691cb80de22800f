"""`materialize`: write a volume, or a box of it, to a store that every reader opens.

Decide, then act: a `Request` (arrays, regions, metadata, identity) and its plans are made before anything is touched;
what is at the target already decides whether the run begins, goes on, replaces or refuses; then arrays are written one
after the other. How a store becomes finished: its mark is taken off last, then its record.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chunkloom.engine.volume import Volume
from chunkloom.engine.writing import start
from chunkloom.engine.writing.caches import caches_limited
from chunkloom.engine.writing.lock import locked
from chunkloom.engine.writing.pyramid import Halved
from chunkloom.engine.writing.record import Record
from chunkloom.engine.writing.region import Extent
from chunkloom.engine.writing.request import BoxLike, MaterializePlan, Request, Target, request_of, size_text
from chunkloom.engine.writing.run import ArrayWriter, Cancel, Counts, Job, Progress, Stop
from chunkloom.engine.writing.target import BucketTarget, LocalTarget, open_target
from chunkloom.errors import CancelledWorkError


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


def plan_materialize(volume: Volume, target: Target, **options: Any) -> MaterializePlan:
    """What `materialize` with these arguments would do. Touches nothing."""
    for name in ("overwrite", "resume", "progress", "cancel"):
        options.pop(name, None)
    return request_of(volume, target, **options).plan


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
    request = request_of(
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
    start.refuse_what_is_read(place, volume)
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
        with caches_limited(request.volume, _cache_share(request)):
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


def _cache_share(request: Request) -> int | None:
    shares = [plan.cache_bytes for _, _, plan in request.plan.arrays if plan.cache_bytes is not None]
    return min(shares, default=None)


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


__all__ = [
    "MaterializePlan",
    "Materialized",
    "Progress",
    "materialize",
    "plan_materialize",
    "size_text",
]
