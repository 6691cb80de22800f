"""`/metrics`: what a chunk server counts, in the Prometheus text format. Imported when first asked for.

Reads the plain counters of the app at each scrape; nothing on the way of a chunk knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from chunkloom.serving.caches import CacheUse, cache_use
from chunkloom.serving.times import BOUNDS_S

if TYPE_CHECKING:
    from chunkloom.serving.app import ChunkApp

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics(Collector):
    """The numbers of one app."""

    def __init__(self, app: ChunkApp) -> None:
        self.app = app

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("chunkloom_requests", "Requests answered.", labels=["of", "status"])
        for of, counts in (("volumes", self.app.answered), ("api", self.app.gate.answered)):
            for status, count in sorted(counts.items()):
                requests.add_metric([of, str(status)], count)
        yield requests
        yield self._seconds()
        queue = self.app.scheduler.snapshot()
        chunks = CounterMetricFamily("chunkloom_chunks", "Chunks made, dropped unwanted, or failed.", labels=["end"])
        for end in ("done", "dropped", "failed"):
            chunks.add_metric([end], queue[end])
        yield chunks
        jobs = GaugeMetricFamily("chunkloom_queue_jobs", "Chunks waiting and being made.", labels=["state", "level"])
        for state in ("waiting", "running"):
            for level, count in queue[state].items():
                jobs.add_metric([state, level], count)
        yield jobs
        yield GaugeMetricFamily("chunkloom_workers", "Chunks made at a time.", value=queue["workers"])
        yield from _caches(cache_use(self.app))
        yield GaugeMetricFamily("chunkloom_volumes", "Volumes served.", value=len(self.app.volumes))

    def _seconds(self) -> Metric:
        counts, total = self.app.times.snapshot()
        buckets, so_far = [], 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        return HistogramMetricFamily(
            "chunkloom_chunk_seconds", "Time to read, compute and encode a chunk.", buckets=buckets, sum_value=total
        )


def _caches(used: dict[str, CacheUse]) -> Iterator[Metric]:
    size = GaugeMetricFamily("chunkloom_cache_bytes", "Memory of kept chunks.", labels=["cache"])
    limit = GaugeMetricFamily("chunkloom_cache_limit_bytes", "Most memory of kept chunks.", labels=["cache"])
    asked = CounterMetricFamily("chunkloom_cache_lookups", "Lookups of kept chunks.", labels=["cache", "found"])
    for name, use in used.items():
        size.add_metric([name], use.bytes)
        limit.add_metric([name], use.limit)
        asked.add_metric([name, "yes"], use.hits)
        asked.add_metric([name, "no"], use.misses)
    return iter((size, limit, asked))


def exposition(app: ChunkApp) -> bytes:
    """The metrics of `app` as text."""
    registry = CollectorRegistry()
    registry.register(ServerMetrics(app))
    return generate_latest(registry)
