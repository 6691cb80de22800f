"""Coarse chunks around what is on the screen are made when nobody waits, and given up when the view is elsewhere."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from chunkloom import Op, Pipeline, array_volume
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.formats import ChunkKey
from chunkloom.serving.ahead import MOST

from .test_app import ask, wait_for

ARRAY = np.random.default_rng(0).integers(0, 255, (256, 256, 256), np.uint8)
CHUNK = (16, 16, 16)


@dataclasses.dataclass(frozen=True)
class Dear(Op):
    """Waits for a gate."""

    gate: threading.Event = dataclasses.field(default_factory=threading.Event, compare=False)
    dear = True

    def parameters(self):
        return {}

    def apply(self, block):
        assert self.gate.wait(20)
        return block


@pytest.fixture
def served(serve):
    op = Dear()
    volume = Pipeline(array_volume(ARRAY, chunk=CHUNK), [op], chunk=CHUNK, cache=ChunkCache())
    op.gate.set()
    server = serve({"a": volume})
    yield server, volume, op
    op.gate.set()


def kept(volume, level):
    pyramid = volume.stages[-1]
    return {key[2] for key in list(pyramid.cache.kept._held) if key[0] == pyramid.stage_digest and key[1] == level}


def test_neighbours_and_the_next_level_are_made_after_a_coarse_chunk(served):
    server, volume, _ = served
    assert ask(server, "/a/zarr2/s1/1/1/1")[0] == 200
    around = {(1, 1, 1), (0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)}
    wait_for(lambda: around <= kept(volume, 1))
    wait_for(lambda: (0, 0, 0) in kept(volume, 2))
    wait_for(lambda: not server.app.ahead._waiting)


def test_nothing_is_made_ahead_of_fine_chunks(served):
    server, volume, _ = served
    assert ask(server, "/a/zarr2/s0/1/1/1")[0] == 200
    assert not server.app.ahead._waiting
    assert kept(volume, 1) == set()


def test_what_is_ahead_of_an_older_view_is_given_up(served):
    server, _volume, op = served
    ahead, target = server.app.ahead, server.app.volumes["a"]
    op.gate.clear()
    for i in range(4):
        ahead.seen(target, ChunkKey(1, (2 * i, 3, 3), 3))
    assert len(ahead._waiting) == MOST
    places = [(level, index) for _, level, index in ahead._waiting]
    assert (1, (7, 3, 3)) in places
    assert (1, (1, 3, 3)) not in places or places.index((1, (1, 3, 3))) < 3
    ahead.close()
    wait_for(lambda: not server.app.scheduler.snapshot()["waiting"])


def test_nothing_goes_on_for_a_volume_that_is_gone(served):
    server, _, op = served
    op.gate.clear()
    server.app.ahead.seen(server.app.volumes["a"], ChunkKey(1, (3, 3, 3), 3))
    assert server.app.ahead._waiting
    server.app.remove("a")
    assert not server.app.ahead._waiting
