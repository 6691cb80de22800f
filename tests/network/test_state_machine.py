"""Random sequences of everything that can be done to a network, against a plain model in memory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chunkloom.network import Chunk, NetworkFile, check, compact
from chunkloom.network import handle as handles

CHUNKS = [(0, 0, 0), (2, 0, 0), (10, 0, 0), (-1, 0, 0), (0, -1, 3)]
LABELS = ["a", "b", "c"]
NAMES = ["pre", "post"]
chunks = st.sampled_from(CHUNKS)
names = st.sampled_from(NAMES)
labels = st.lists(st.sampled_from(LABELS), min_size=1, max_size=2, unique=True)
filters = st.none() | st.lists(chunks, max_size=3, unique=True)


class Model(RuleBasedStateMachine):
    """Cells are rows (serial number, labels) in a dict of chunks; connections are pairs of serial numbers."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "net.hdf5"
        self.network = NetworkFile.create(self.path, chunk_size=(10, 10, 10))
        self.cells: dict[str, dict[tuple[int, int, int], list[list[Any]]]] = {n: {} for n in NAMES}
        self.links: list[tuple[int, int]] = []
        self.serial = 0
        for name in NAMES:
            self.network.require_placement(name)
        self.network.require_connectivity("pre", "post", "links")

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.network.close()
            shutil.rmtree(self.folder)

    def listed(self, name: str, where: Any = None, having: Any = None) -> list[list[Any]]:
        """Cells of the model in the order of their ids, filtered."""
        order = sorted(self.cells[name], key=lambda c: Chunk(c).id)
        kept = [cell for c in order if where is None or c in where for cell in self.cells[name][c]]
        return [cell for cell in kept if having is None or (cell[1] & set(having) if having else not cell[1])]

    @rule(name=names, chunk=chunks, count=st.integers(0, 4), extra=st.booleans())
    def append(self, name: str, chunk: tuple[int, int, int], count: int, extra: bool) -> None:
        serials = np.arange(self.serial, self.serial + count)
        self.serial += count
        rows = np.repeat(serials[:, None], 3, axis=1)
        more = {"w": serials + 0.5} if extra else None
        self.network.placement(name).append_data(chunk, rows, rotations=rows if extra else None, additional=more)
        self.cells[name].setdefault(chunk, []).extend([int(s), set(), extra] for s in serials)

    @rule(name=names, given=labels, where=filters, having=st.none() | labels, data=st.data(), remove=st.booleans())
    def relabel(self, name: str, given: list[str], where: Any, having: Any, data: Any, remove: bool) -> None:
        chosen = self.listed(name, where, having)
        ranks = data.draw(st.lists(st.integers(0, len(chosen) - 1), unique=True)) if chosen else []
        found = self.network.placement(name, where, having)
        assert len(found) == len(chosen)
        (found.remove_labels if remove else found.label)(given, ranks)
        for rank in ranks:
            chosen[rank][1] = chosen[rank][1] - set(given) if remove else chosen[rank][1] | set(given)

    @rule(where=st.lists(chunks, min_size=1, max_size=2, unique=True))
    @precondition(lambda self: not self.links)
    def clear(self, where: Any) -> None:
        self.network.placement("pre").clear(where)
        for chunk in where:
            self.cells["pre"].pop(chunk, None)

    @rule(where=filters, to=filters, having=st.none() | labels, data=st.data())
    def connect(self, where: Any, to: Any, having: Any, data: Any) -> None:
        src, dst = self.listed("pre", where, having), self.listed("post", to)
        if not src or not dst:
            return
        ends = st.tuples(st.integers(0, len(src) - 1), st.integers(0, len(dst) - 1))
        pairs = data.draw(st.lists(ends, min_size=1, max_size=8))
        self.network.connectivity("links").connect(
            self.network.placement("pre", where, having),
            self.network.placement("post", to),
            [a for a, _ in pairs],
            [b for _, b in pairs],
        )
        self.links.extend((src[a][0], dst[b][0]) for a, b in pairs)

    @rule()
    def disconnect(self) -> None:
        self.network.connectivity("links").clear()
        self.links.clear()

    @rule(how=st.sampled_from(["close", "checkpoint", "killed", "compact", "copy"]))
    def reopen(self, how: str) -> None:
        if how == "close":
            self.network.close()
        elif how == "checkpoint":
            self.network.checkpoint()
        elif how == "compact":
            compact(self.network)
        elif how == "copy":
            copy = self.folder / "copy.hdf5"
            self.network.copy(copy)
            self.network.remove()
            NetworkFile.open(copy).move(self.path)
        else:
            handles.handle_of(self.path).forget()  # all a killed process knew
        self.network = NetworkFile.open(self.path)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "network"):
            return
        serials = {}
        for name in NAMES:
            expected, found = self.listed(name), self.network.placement(name)
            serials[name] = np.array([c[0] for c in expected], int)
            assert len(found) == len(expected)
            assert found.load_positions()[:, 0].tolist() == serials[name].tolist()
            stats = {Chunk(c).id: len(cells) for c, cells in self.cells[name].items()}
            assert found.get_chunk_stats() == stats
            for label in LABELS:
                assert found.get_labelled([label]).tolist() == [i for i, c in enumerate(expected) if label in c[1]]
            if any(c[2] for c in expected):
                assert found.load_rotations()[:, 0].tolist() == [c[0] if c[2] else 0 for c in expected]
                extra = [c[0] + 0.5 if c[2] else np.nan for c in expected]
                assert np.array_equal(found.load_additional("w"), extra, equal_nan=True)
        pre, post = self.network.connectivity("links").load_connections()
        pairs = zip(serials["pre"][pre[:, 0]].tolist(), serials["post"][post[:, 0]].tolist(), strict=True)
        assert sorted(pairs) == sorted(self.links)
        assert len(self.network.connectivity("links")) == len(self.links)

    @rule()
    def is_sound(self) -> None:
        assert check(self.network) == []


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
