"""The caches behind an app: how full they are, and emptying them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chunkloom.engine.cache import ByteCache, ChunkCache
from chunkloom.engine.chunked import ChunkedVolume, process_cache
from chunkloom.engine.disk import DiskCache
from chunkloom.engine.volume import behind

if TYPE_CHECKING:
    from chunkloom.serving.app import ChunkApp


@dataclass(frozen=True)
class CacheUse:
    """How full a cache is: bytes held and allowed, entries, and lookups that found something or nothing."""

    bytes: int
    limit: int
    entries: int
    hits: int
    misses: int


def cache_use(app: ChunkApp) -> dict[str, CacheUse]:
    """Of computed chunks (`decoded`, all caches of the served volumes together), of answers (`encoded`), and of chunks
    on disk (`disk`) where they are kept there."""
    disks = disk_caches(app)
    on_disk = {"disk": _use(disks)} if disks else {}
    return {"decoded": _use(decoded_caches(app)), "encoded": _use([app.encoded]), **on_disk}


def clear_caches(app: ChunkApp) -> None:
    """Forget every kept chunk and answer, and have clients forget theirs: all is read anew from where it is stored."""
    for cache in decoded_caches(app):
        cache.clear()
    for disk in disk_caches(app):
        disk.clear()
    for served in app.volumes.values():
        served.look_again()
    app.forget()


def decoded_caches(app: ChunkApp) -> list[ByteCache]:
    """The process's own cache, and those that volumes were given for themselves."""
    return [cache.kept for cache in _caches(app)]


def disk_caches(app: ChunkApp) -> list[DiskCache]:
    """The same on disk, where there are any."""
    found = {id(cache.disk): cache.disk for cache in _caches(app) if cache.disk is not None}
    return list(found.values())


def _caches(app: ChunkApp) -> list[ChunkCache]:
    found = {id(process_cache()): process_cache()}
    for served in app.volumes.values():
        for part in behind(served.volume):
            if isinstance(part, ChunkedVolume):
                found[id(part.cache)] = part.cache
    return list(found.values())


def _use(caches: Sequence[ByteCache | DiskCache]) -> CacheUse:
    return CacheUse(
        bytes=sum(cache.used for cache in caches),
        limit=sum(cache.limit for cache in caches),
        entries=sum(len(cache) for cache in caches),
        hits=sum(cache.hits for cache in caches),
        misses=sum(cache.misses for cache in caches),
    )
