"""`Request`: what was asked of a materialize, checked, and its `MaterializePlan`. Touches nothing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.engine.formats.base import DEFAULT_CODEC, FORMATS, URL_WORDS, codec_names
from chunkloom.engine.volume import Level, Volume
from chunkloom.engine.writing.documents import StoreDescription
from chunkloom.engine.writing.plan import ArrayPlan, plan_array
from chunkloom.engine.writing.pyramid import coarser, coarser_box
from chunkloom.engine.writing.record import Identity
from chunkloom.engine.writing.region import Extent, Region, region_of, voxel_box
from chunkloom.errors import ParameterError, nearest
from chunkloom.geometry import Box

Target = str | os.PathLike[str]
BoxLike = Box | Sequence[Sequence[float | None]]


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


def request_of(
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
    """What the arguments of `materialize` ask for. Raises what it raises for options that do not fit."""
    word = URL_WORDS.get(format, format)
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
