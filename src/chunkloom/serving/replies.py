"""What the REST API answers with, as pydantic models: for the OpenAPI document, and so that answers are as it says."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Pair = list[int]


class Error(BaseModel):
    """Why there is no other answer."""

    error: str = Field(description="The reason, in one line.")


class LevelEntry(BaseModel):
    """One level: channel axes first, then z, y, x."""

    shape: list[int]
    dtype: str
    chunk_shape: list[int]
    axes: list[str]
    voxel_size_nm: list[float] = Field(description="z, y, x")
    corner_nm: list[float] = Field(description="z, y, x; the lower corner of voxel 0")


class VolumeEntry(BaseModel):
    """A served volume."""

    name: str
    digest: str = Field(description="Another one whenever anything a client can see is.")
    kind: Literal["image", "labels", "mask"]
    urls: dict[str, str] = Field(description="Format to path on this server.")
    levels: list[LevelEntry] = Field(description="Finest first.")
    spec: dict[str, Any] | None = Field(None, description="What it is made of. Only with the token.")
    warnings: list[str] | None = Field(None, description="What to know of how it was read. Only with the token.")


class VolumeList(BaseModel):
    """The served volumes."""

    volumes: list[VolumeEntry]


class EquivalencesReply(BaseModel):
    """Which ids of a volume of labels are one object."""

    name: str
    digest: str
    joins: bool = Field(description="Whether ids are those of a chunk, and objects continue over chunks with others.")
    groups: list[list[str]] = Field(description="Ids of one object each, as text: sorted, by their smallest.")


class OpEntry(BaseModel):
    """An op that volumes can be made with."""

    name: str
    description: str
    json_schema: dict[str, Any] = Field(description="JSON Schema of its form in a spec.", alias="schema")


class OpList(BaseModel):
    """The ops there are."""

    ops: list[OpEntry]


class PlanEntry(BaseModel):
    """What one stage makes or reads at one level."""

    stage: str = Field(description="An op's name, `pyramid` (made from the next finer level), or `source`.")
    level: int
    chunks: int = Field(description="How many.")
    chunk_range: list[Pair] = Field(description="Their indices z, y, x: begin and end of each, end not included.")
    box: list[Pair] = Field(description="Voxels z, y, x: begin and end of each axis, end not included.")
    bytes: int = Field(description="Of these voxels, decoded.")
    kept: bool = Field(description="Whether the chunks stay in the cache.")


class PlanReply(BaseModel):
    """What it takes to make a box, if nothing is kept yet; from the volume down to its source."""

    volume: str
    digest: str
    level: int
    box: list[Pair]
    stages: list[PlanEntry]


class CacheEntry(BaseModel):
    """How full a cache is."""

    bytes: int
    limit: int = Field(description="Most bytes it holds.")
    entries: int
    hits: int
    misses: int


class CacheReply(BaseModel):
    """The caches of this process."""

    decoded: CacheEntry = Field(description="Computed chunks, of all stages.")
    encoded: CacheEntry = Field(description="Answers.")
    disk: CacheEntry | None = Field(None, description="Chunks on disk, where there is a cache on disk.")


class QueueReply(BaseModel):
    """The chunks that clients wait for."""

    workers: int = Field(description="Chunks made at a time.")
    waiting: dict[str, int] = Field(description="Level to chunks not begun.")
    running: dict[str, int] = Field(description="Level to chunks being made.")
    done: int
    dropped: int = Field(description="Given up because nobody waited any more.")
    failed: int
