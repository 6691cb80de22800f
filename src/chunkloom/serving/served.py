"""`ServedVolume`: a volume under its name, with what is made of it once: digest, formats, metadata answers.

Knows no requests and no queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chunkloom import __version__
from chunkloom.engine.formats import DEFAULT_CODEC, URL_WORDS, ChunkKey, Format, codec_of, served_format
from chunkloom.engine.sources.dataset import DatasetVolume
from chunkloom.engine.volume import Volume, behind, make_digest
from chunkloom.geometry import Box
from chunkloom.serving import answers
from chunkloom.serving.answers import Answer
from chunkloom.serving.reasons import stored_places

if TYPE_CHECKING:
    from chunkloom.io.source import StoredArray

log = logging.getLogger(__name__)

JSON = b"application/json"


@dataclass(eq=False)
class ServedVolume:
    """A volume under its name.

    Attributes
    ----------
    asked_codec
        The codec word that was asked for; None for the volume's own.
    places
        Where its stored data lie: never told to clients.
    changing
        Whether its data lie in files whose state can be looked at.
    """

    name: str
    volume: Volume
    asked_codec: str | None
    digest: str = ""
    codec: str = ""
    places: tuple[str, ...] = ()
    changing: bool = False
    formats: dict[str, Format] = field(default_factory=dict)
    metadata: dict[tuple[str, bool], dict[str, Answer]] = field(default_factory=dict)
    passing: dict[tuple[str, int], StoredArray | None] = field(default_factory=dict)
    ending: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.digest = self.volume.digest
        stored = self.volume.stored(0)
        kept = codec_of(stored.stored_layout) if stored is not None and stored.stored_layout is not None else None
        self.codec = self.asked_codec or kept or DEFAULT_CODEC
        self.places = stored_places(self.volume)
        self._datasets = [part for part in behind(self.volume) if isinstance(part, DatasetVolume)]
        self.changing = self.volume.changes

    def end(self) -> None:
        """Listen to the volume no more."""
        while self.ending:
            self.ending.pop()()

    def addressed(self, rest: list[str]) -> tuple[str, str] | None:
        """The format and the file in it that the segments after the name (and digest) address; None for neither."""
        return (URL_WORDS[rest[0]], "/".join(rest[1:])) if rest[0] in URL_WORDS else None

    def format(self, word: str) -> Format:
        if word not in self.formats:
            self.formats[word] = served_format(word, self.codec)
        return self.formats[word]

    def passes(self, word: str, level: int) -> StoredArray | None:
        """The stored array whose chunks are, byte for byte, those of a level in a format; None where they are not."""
        if (word, level) not in self.passing:
            stored = self.volume.stored(level)
            layout = None if stored is None else stored.stored_layout
            same = layout is not None and self.format(word).passes(layout, self.volume.levels[level])
            self.passing[word, level] = stored if same else None
        return self.passing[word, level]

    def documents(self, word: str, pinned: bool) -> dict[str, Answer]:
        """The metadata files in a format; `pinned` when the URL carries the digest."""
        key = (word, pinned)
        if key not in self.metadata:
            cache = answers.IMMUTABLE if pinned else answers.REVALIDATE
            if word == "precomputed" and not pinned:
                self._say_what_is_not_held()
            self.metadata[key] = {
                path: answers.answer(
                    200, text, JSON, etag=b'"%s"' % make_digest([self.digest, text.decode()]).encode(), cache=cache
                )
                for path, text in self.format(word).metadata(self.volume, self.name).items()
            }
        return self.metadata[key]

    def _say_what_is_not_held(self) -> None:
        """Precomputed holds corners of whole voxels."""
        finest = self.volume.levels[0]
        voxels = [c / v for c, v in zip(finest.grid.corner_nm, finest.voxel_size_nm, strict=True)]
        if any(abs(n - round(n)) > 1e-6 for n in voxels):
            log.warning(
                "%s: its corner, %s nm (z, y, x), is not of whole voxels: precomputed has it at the voxel it lies in. "
                "Our own viewer places it; others show it up to a voxel off, and right from zarr",
                self.name,
                ", ".join(f"{c:g}" for c in finest.grid.corner_nm),
            )

    def exists(self, key: ChunkKey) -> bool:
        """Whether there is such a chunk."""
        if key.level >= len(self.volume.levels):
            return False
        level = self.volume.levels[key.level]
        return key.ndim == len(level.shape) and all(i < n for i, n in zip(key.index, level.chunk_grid, strict=True))

    def box(self, key: ChunkKey) -> Box:
        """The voxels of a chunk."""
        level = self.volume.levels[key.level]
        return Box.of_chunk(key.index, level.spatial_chunk).intersect(level.box)

    def named(self, key: ChunkKey) -> str:
        """A chunk in words: `em/0/4.7.2`."""
        return f"{self.name}/{key.level}/{'.'.join(map(str, key.index))}"

    def state(self, key: ChunkKey) -> str:
        """The state of the files that a chunk comes from; "" where there are none to look at."""
        return self.volume.state(key.level, self.box(key)) if self.changing else ""

    def look_again(self) -> None:
        """Look at the files anew at the next question for their state."""
        for dataset in self._datasets:
            dataset.look_again()

    def check(self) -> None:
        """Raise `ChunkReadError` where stored chunks may mean something else by now."""
        for dataset in self._datasets:
            dataset.check()

    def etag(self, word: str, key: ChunkKey, state: str) -> bytes:
        """Known without computing: digest, codec and version, and `state`, that of the stored data."""
        z, y, x = key.index
        seen = f"-{state}" if state else ""
        return f'"{self.digest}-{word}-{self.codec}-{__version__}-{key.level}.{z}.{y}.{x}{seen}"'.encode()
