"""Defects seen in other servers of computed volumes, each as a client meets it.

Those that have tests beside what they are about are not repeated: cached arrays given to ops (`test_pipeline`), HEAD
and ranges (`test_app`, `test_range`), another site's page or name reaching the API (`test_rest_hostile`).
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Op, Pipeline, array_volume, open_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.errors import ChunkError

from .rest_client import write_zarr
from .test_app import ask

RNG = np.random.default_rng(5)
ARRAY = RNG.integers(0, 256, (40, 36, 33), np.uint8)
METADATA = {"zarr2": ".zattrs", "zarr3": "zarr.json", "n5": "attributes.json", "precomputed": "info"}


@pytest.mark.parametrize(
    "other",
    [
        {"voxel_size_nm": (8, 8, 8.5)},
        {"corner_nm": (0, 0, 4)},
        {"kind": "labels"},
        {"chunk": (16, 16, 32)},
        {"axes": "xyz"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_digest_that_ignores_what_a_client_sees(serve, other):
    given = {"voxel_size_nm": (8, 8, 8), "chunk": (16, 16, 16)}
    cube = ARRAY[:33, :33, :33]
    server = serve({"a": Pipeline(array_volume(cube, **given))})
    before = {word: ask(server, f"/a/{word}/{file}")[1]["etag"] for word, file in METADATA.items()}
    old = server.app.volumes["a"].digest
    server.app.add("a", Pipeline(array_volume(cube, **{**given, **other})))
    assert server.app.volumes["a"].digest != old
    for word, file in METADATA.items():
        status, headers, _ = ask(server, f"/a/{word}/{file}", headers={"If-None-Match": before[word]})
        assert (status, headers["etag"] != before[word]) == (200, True), word
        assert ask(server, f"/a/@{old}/{word}/{file}")[0] == 404


@dataclasses.dataclass(frozen=True)
class VoxelSize(Op):
    """The size of a voxel along x, which is no parameter of the op."""

    cache = True

    def bind(self, source, chunk):
        bound = VoxelSize()
        object.__setattr__(bound, "size", int(source.levels[0].voxel_size_nm[-1]))
        return bound

    def apply(self, block):
        return np.full_like(block, self.size)


def test_a_cache_key_that_ignores_the_voxel_size_an_op_uses(serve):
    cache = ChunkCache()
    made = {
        str(nm): Pipeline(array_volume(ARRAY, voxel_size_nm=(8, 8, nm)), [VoxelSize()], cache=cache) for nm in (4, 9)
    }
    server = serve(made, codec="none")
    for name in made:
        assert set(ask(server, f"/{name}/n5/s0/0/0/0")[2][16:]) == {int(name)}


def test_an_op_that_writes_into_its_block_changes_no_source():
    class Writer(Op):
        def apply(self, block):
            block[:] = 0
            return block

    volume = array_volume(ARRAY, chunk=(64, 64, 64))
    with pytest.raises(ChunkError, match="read-only"):
        Pipeline(volume, [Writer()], cache=ChunkCache()).read()
    assert np.array_equal(volume.read(), ARRAY)


@dataclasses.dataclass(frozen=True, eq=False)
class Gated(Op):
    """Waits for a gate; fails while told to. Counts."""

    cache = True
    count: list = dataclasses.field(default_factory=list)
    state: dict = dataclasses.field(default_factory=dict)

    def parameters(self):
        return {}

    def apply(self, block):
        self.count.append(1)
        self.state["gate"].wait(20)
        if self.state["fails"]:
            raise RuntimeError("the stage is stuck")
        return block


def ask_together(server, path, op, clients=8):
    """Answers to so many clients that all wait before the op may go on."""
    op.state["gate"] = threading.Event()
    began = len(op.count)
    with ThreadPoolExecutor(clients) as pool:
        asked = [pool.submit(ask, server, path) for _ in range(clients)]
        end = time.monotonic() + 20
        while len(op.count) == began or _claims(server) < clients:
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)
        op.state["gate"].set()
        return [future.result() for future in asked]


def _claims(server) -> int:
    return sum(len(job.claims) for job in list(server.app.scheduler._jobs.values()))


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "too-large-to-keep"])
def test_those_who_wait_compute_again_when_the_first_failed_or_nothing_is_kept(serve, keeps):
    op = Gated(state={"fails": True})
    size = 1 << 20 if keeps else 0
    volume = Pipeline(array_volume(ARRAY, chunk=(16, 16, 16)), [op], cache=ChunkCache(size), chunk=(16, 16, 16))
    server = serve({"a": volume}, encoded_bytes=size)
    failed = ask_together(server, "/a/zarr2/s0/0/0/0", op)
    assert [status for status, _, _ in failed] == [500] * 8
    assert all(b"the stage is stuck" in body for _, _, body in failed)
    assert len(op.count) == 1
    op.state["fails"] = False
    answered = ask_together(server, "/a/zarr2/s0/0/0/0", op)
    assert [status for status, _, _ in answered] == [200] * 8
    assert len({body for _, _, body in answered}) == 1
    assert len(op.count) == 2


def test_an_old_digest_answers_with_new_data_while_a_chunk_is_under_way(serve):
    op = Gated(state={"fails": False, "gate": threading.Event()})
    old = Pipeline(array_volume(ARRAY, chunk=(64, 64, 64)), [op], cache=ChunkCache())
    new = array_volume(255 - ARRAY, chunk=(64, 64, 64))
    server = serve({"a": old}, codec="none")
    path = f"/a/@{old.digest}/zarr2/s0/0/0/0"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, server, path)
        while not op.count:
            time.sleep(0.005)
        server.app.add("a", new)
        op.state["gate"].set()
        status, _, body = first.result()
    assert status == 200
    assert np.array_equal(np.frombuffer(body, np.uint8).reshape(64, 64, 64)[:40, :36, :33], ARRAY)
    assert ask(server, path)[0] == 404
    found = np.frombuffer(ask(server, "/a/zarr2/s0/0/0/0")[2], np.uint8).reshape(64, 64, 64)[:40, :36, :33]
    assert np.array_equal(found, 255 - ARRAY)


def test_two_processes_of_one_volume_answer_alike(own_home):
    """A proxy may spread clients over several servers: their digests and validators must agree."""
    words = [sys.executable, "-m", "chunkloom", "serve", "synthetic://em", "--op", "threshold:low=120"]
    words += ["--ready-file", "-"]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        told = []
        for process in processes:
            ready = json.loads(process.stdout.readline())

            class At:
                host, port = "127.0.0.1", ready["port"]

            name, digest = ready["volumes"][0]["name"], ready["volumes"][0]["digest"]
            _, headers, body = ask(At, f"/{name}/@{digest}/zarr3/s2/c/0/0/0")
            told.append((digest, headers["etag"], body))
        assert told[0] == told[1]
    finally:
        for process in processes:
            process.terminate()
            process.communicate(timeout=20)


@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
def test_bool_with_a_fill_value_that_is_no_bool(serve, word):
    server = serve({"a": Pipeline(array_volume(ARRAY > 100))})
    file = {"zarr2": ".zarray", "zarr3": "zarr.json"}[word]
    for i in range(len(server.app.volumes["a"].volume.levels)):
        assert json.loads(ask(server, f"/a/{word}/s{i}/{file}")[2])["fill_value"] is False


@pytest.mark.parametrize(("low", "high"), [(1, 1.6), (0.5, 3), (2.3, 2.9), ((1, 2, 3), (2, 3, 4.4))], ids=str)
def test_a_halo_shorter_than_the_kernel_of_a_difference_of_gaussians(low, high):
    array = ARRAY.astype(np.float32)
    expected = ndimage.gaussian_filter(array, low, mode="nearest") - ndimage.gaussian_filter(
        array, high, mode="nearest"
    )
    volume = Pipeline(
        array_volume(array, chunk=(8, 8, 8)),
        [ops.DifferenceOfGaussians(low_sigma=low, high_sigma=high)],
        chunk=(8, 8, 8),
    )
    whole = np.zeros_like(array)
    for index in np.ndindex(5, 5, 5):
        box = [(8 * i, min(8 * i + 8, n)) for i, n in zip(index, array.shape, strict=True)]
        whole[tuple(slice(*pair) for pair in box)] = volume.read(box)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=2e-4)


def test_the_path_of_the_source_in_what_is_served(serve, tmp_path):
    folder = tmp_path / "patient-4711"
    folder.mkdir()
    write_zarr(folder / "scan.zarr")
    server = serve({"a": Pipeline(open_volume(str(folder / "scan.zarr")), [ops.Threshold(low=3)])})
    paths = ["/", "/a", "/a/", "/api/volumes", "/api/volumes/a", "/metrics", "/a/zarr2/s0/9/9/9"]
    for word in METADATA:
        paths += [f"/a/{word}/{file}" for file in server.app.volumes["a"].documents(word, False)]
    for path in paths:
        assert b"4711" not in ask(server, path)[2], path
