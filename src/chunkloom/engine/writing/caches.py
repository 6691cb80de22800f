"""Keeping what a volume keeps within bounds while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.volume import Volume


@contextmanager
def caches_limited(volume: Volume, limit: int | None) -> Iterator[None]:
    """While the block runs, the caches of a volume take at most `limit` bytes together; as they are for None."""
    caches = [] if limit is None else caches_of(volume)
    before = [cache.kept.limit for cache in caches]
    for cache in caches:
        assert limit is not None
        cache.kept.shrink(min(cache.kept.limit, limit // len(caches)))
    try:
        yield
    finally:
        for cache, old in zip(caches, before, strict=True):
            cache.kept.limit = old


def caches_of(volume: Volume) -> list[ChunkCache]:
    """Every cache that a volume or what it is made of keeps chunks in."""
    from chunkloom.engine.chunked import process_cache

    caches = (getattr(one, "cache", None) for one in made_of(volume))
    found = {id(cache): cache for cache in (process_cache(), *caches) if isinstance(cache, ChunkCache)}
    return list(found.values())


def made_of(volume: Volume) -> Iterator[Volume]:
    """A volume, and every volume that it reads."""
    waiting: list[Any] = [volume]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += [v for v in (getattr(one, "source", None), *getattr(one, "stages", ())) if isinstance(v, Volume)]
