"""What is in a network file, told in words or as data."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from chunkloom.network import NetworkFile


@dataclass(frozen=True)
class CellsEntry:
    """The cells of one type."""

    name: str
    cells: int
    chunks: int
    additional: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ConnectionsEntry:
    """The connections of one tag."""

    tag: str
    pre: str
    post: str
    connections: int


@dataclass(frozen=True)
class Summary:
    """What is in a network file. Lengths are x, y, z in µm."""

    path: str
    bytes: int
    chunk_size_um: tuple[float, float, float] | None
    chunks: int
    cells: tuple[CellsEntry, ...]
    connections: tuple[ConnectionsEntry, ...]
    morphologies: tuple[str, ...]
    files: tuple[str, ...]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """In words."""
        size = "not known" if self.chunk_size_um is None else " x ".join(f"{n:g}" for n in self.chunk_size_um) + " µm"
        out = [f"{self.path}: {self.chunks} chunks of {size} (x, y, z), {self.bytes} bytes"]
        for of in self.cells:
            out.append(f"  cells {of.name}: {of.cells} in {of.chunks} chunks")
            if of.additional:
                out.append(f"    additional: {', '.join(of.additional)}")
            if of.labels:
                out.append(f"    labels: {', '.join(of.labels)}")
        out += [f"  connections {of.tag}: {of.connections}, {of.pre} to {of.post}" for of in self.connections]
        if self.morphologies:
            out.append(f"  morphologies: {', '.join(self.morphologies)}")
        if self.files:
            out.append(f"  {len(self.files)} stored files")
        return out


def summary(network: NetworkFile) -> Summary:
    """What is in a network file, one state of it."""
    with network.read_scope():
        cells = []
        for name in network.placement_names():
            of = network.placement(name)
            stats = of.get_chunk_stats()
            keys = of.additional_keys()
            labels = sorted({label for labels in of.get_unique_labels() for label in labels})
            cells.append(CellsEntry(name, sum(stats.values()), len(stats), tuple(keys), tuple(labels)))
        links = [network.connectivity(tag) for tag in network.connectivity_tags()]
        return Summary(
            path=network.path,
            bytes=os.path.getsize(network.path),
            chunk_size_um=network.chunk_size,
            chunks=len(network.get_all_chunks()),
            cells=tuple(cells),
            connections=tuple(ConnectionsEntry(of.tag, of.pre, of.post, len(of)) for of in links),
            morphologies=tuple(sorted(network.morphologies.list())),
            files=tuple(sorted(network.files.all())),
            versions=network.versions,
        )
