"""What is served is read equal by zarrita, which viewers in the browser use."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume, ops

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("zarrita.mjs")
RNG = np.random.default_rng(11)
SHAPE, CHUNK = (37, 50, 41), (16, 20, 24)


@pytest.fixture(scope="module")
def web() -> Path:
    """The folder whose node_modules has zarrita; skips, by name, where there is none."""
    folder = REPOSITORY / "web"
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (folder / "node_modules" / "zarrita").is_dir():
        pytest.skip(f"zarrita is not installed: run npm ci in {folder}")
    return folder


@pytest.fixture
def read(web, tmp_path):
    """All levels of a served group by zarrita."""

    def run(url: str) -> list[np.ndarray]:
        done = subprocess.run(
            ["node", str(SCRIPT), str(web), url, str(tmp_path)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return [
            np.frombuffer((tmp_path / str(i)).read_bytes(), level["dtype"]).reshape(level["shape"])
            for i, level in enumerate(json.loads(done.stdout))
        ]

    return run


def mean_halved(array: np.ndarray) -> np.ndarray:
    """Mean of 2 x 2 x 2 voxels, of those that are there at the ends; integers rounded half to even."""
    padding = [(0, n % 2) for n in array.shape[-3:]]
    padding = [(0, 0)] * (array.ndim - 3) + padding
    total = np.pad(array.astype(np.float64), padding)
    count = np.pad(np.ones(array.shape), padding)

    def sums(values: np.ndarray) -> np.ndarray:
        z, y, x = values.shape[-3:]
        return values.reshape(*values.shape[:-3], z // 2, 2, y // 2, 2, x // 2, 2).sum(axis=(-5, -3, -1))

    mean = sums(total) / sums(count)
    return np.rint(mean).astype(array.dtype) if array.dtype.kind in "ui" else mean.astype(array.dtype)


def mode_halved(array: np.ndarray) -> np.ndarray:
    """Most frequent value of 2 x 2 x 2 voxels, of equals the smallest."""
    out = np.zeros([-(-n // 2) for n in array.shape], array.dtype)
    for index in np.ndindex(*out.shape):
        values, counts = np.unique(array[tuple(slice(2 * i, 2 * i + 2) for i in index)], return_counts=True)
        out[index] = values[counts.argmax()]
    return out


def levels_of(finest: np.ndarray, count: int, halved) -> list[np.ndarray]:
    levels = [finest]
    while len(levels) < count:
        levels.append(halved(levels[-1]))
    return levels


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in expected]
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(a, b), f"level {i}"


WORDS = pytest.mark.parametrize("word", ["zarr2", "zarr3"])


@WORDS
@pytest.mark.parametrize("codec", ["none", "zstd", "blosc", "gzip"])
def test_an_image_of_ops_equals_numpy_on_every_level(serve, read, word, codec):
    array = RNG.integers(0, 256, SHAPE, np.uint8)
    volume = Pipeline(array_volume(array, chunk=CHUNK), [ops.Invert()], chunk=CHUNK)
    server = serve({"a": volume}, codec=codec)
    equal(read(f"{server.url}/a/{word}"), levels_of(255 - array, 3, mean_halved))


@WORDS
def test_a_mask_is_read_as_booleans_on_every_level(serve, read, word):
    array = RNG.integers(0, 2, SHAPE).astype(bool)
    server = serve({"a": Pipeline(array_volume(array, chunk=CHUNK, kind="mask"))})
    equal(read(f"{server.url}/a/{word}"), levels_of(array, 3, mode_halved))


@WORDS
def test_ids_of_64_bits_are_exact_on_every_level(serve, read, word):
    array = RNG.integers(2**63, 2**63 + 3, SHAPE, np.uint64)
    server = serve({"a": Pipeline(array_volume(array, chunk=CHUNK, kind="labels"))})
    equal(read(f"{server.url}/a/{word}"), levels_of(array, 3, mode_halved))


@WORDS
def test_floats_are_bit_for_bit_at_the_finest_level(serve, read, word):
    array = RNG.normal(0, 100, SHAPE).astype(np.float32)
    server = serve({"a": Pipeline(array_volume(array, chunk=CHUNK))})
    found = read(f"{server.url}/a/{word}")
    assert np.array_equal(found[0], array)
    for level, expected in zip(found[1:], levels_of(array, 3, mean_halved)[1:], strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-5, atol=1e-4)


@WORDS
def test_channels_come_first_on_every_level(serve, read, word):
    array = RNG.integers(0, 65536, (3, *SHAPE), np.uint16)
    server = serve({"a": Pipeline(array_volume(array, chunk=CHUNK))})
    equal(read(f"{server.url}/a/{word}"), levels_of(array, 3, mean_halved))
