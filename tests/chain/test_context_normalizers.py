"""Normalizers with context: their oracles on the whole, and chunks that join without seams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from chunkloom.chain import (
    ChannelSelector,
    CLAHENormalizer,
    Dilate,
    EuclideanDistance,
    InputNormalizer,
    raw_channel,
)

RAW = np.random.default_rng(13).integers(0, 256, (23, 26, 31), dtype=np.uint8)
MASK = (np.random.default_rng(14).random((23, 26, 31)) > 0.02).astype(np.uint8)


def by_chunks(step: InputNormalizer, data: np.ndarray, edge: int = 8) -> np.ndarray:
    """As a reader does: each chunk with its halo, cut at the ends of the data, and cropped."""
    out = None
    for begin in itertools.product(*(range(0, n, edge) for n in data.shape[-3:])):
        end = [min(b + edge, n) for b, n in zip(begin, data.shape[-3:], strict=True)]
        low = [max(b - h, 0) for b, h in zip(begin, step.halo, strict=True)]
        high = [min(e + h, n) for e, h, n in zip(end, step.halo, data.shape[-3:], strict=True)]
        block = data[(..., *(slice(b, e) for b, e in zip(low, high, strict=True)))]
        before = [b - b0 for b, b0 in zip(begin, low, strict=True)]
        after = [e1 - e for e, e1 in zip(end, high, strict=True)]
        part = step.process_cropped(block, before, after)
        if out is None:
            out = np.empty(data.shape, part.dtype)
        out[(..., *(slice(b, e) for b, e in zip(begin, end, strict=True)))] = part
    assert out is not None
    return out


@pytest.mark.parametrize(
    ("step", "data"),
    [
        (Dilate(3), RAW),
        (Dilate(4), RAW),
        (EuclideanDistance(2), MASK),
        (EuclideanDistance(2, black_border=False), MASK),
        (EuclideanDistance(3, activation="sigmoid"), MASK),
        (EuclideanDistance(3, type="sdf"), 1 - MASK),
        (EuclideanDistance(20, type="sdf", activation="sigmoid"), 1 - MASK),
        (CLAHENormalizer(radius=5, bins=16), RAW),
        (CLAHENormalizer(radius=3, radius_z=2, clip_limit=1), RAW),
    ],
    ids=repr,
)
def test_chunks_join_without_seams(step: InputNormalizer, data: np.ndarray) -> None:
    whole = step.process(data)
    assert whole.shape == data.shape
    np.testing.assert_array_equal(by_chunks(step, data), whole)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_dilate_equals_scikit_image(size: int) -> None:
    morphology = pytest.importorskip("skimage.morphology")
    for dtype in (np.uint8, np.uint16, np.float32):
        result = Dilate(size).process(RAW.astype(dtype))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, morphology.dilation(RAW.astype(dtype), np.ones((size,) * 3)))
    assert Dilate(size).process(RAW[None]).shape == (1, *RAW.shape)


ACTIVATIONS = {
    None: lambda d: d,
    "tanh": np.tanh,
    "relu": lambda d: np.maximum(d, 0),
    "sigmoid": lambda d: 1 / (1 + np.exp(-d.astype(np.float64))),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["edt", "sdf"])
@pytest.mark.parametrize("border", [True, False])
@pytest.mark.parametrize("anisotropy", [1, 50])
def test_euclidean_distance_equals_edt(activation: str | None, kind: str, border: bool, anisotropy: int) -> None:
    edt = pytest.importorskip("edt")
    step = EuclideanDistance(anisotropy, border, 2, kind, activation)
    expected = getattr(edt, kind)(MASK, anisotropy=(anisotropy,) * 3, black_border=border)
    result = step.process(MASK)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, ACTIVATIONS[activation](expected), rtol=1e-6, atol=1e-7)


def test_activation_none_is_read_from_a_form() -> None:
    assert EuclideanDistance(activation="None").activation is None
    assert EuclideanDistance(activation="").activation is None


def test_channels_are_treated_one_by_one() -> None:
    both = np.stack([RAW, 255 - RAW])
    for step in (EuclideanDistance(), Dilate(3), CLAHENormalizer(radius=4)):
        np.testing.assert_array_equal(step.process(both)[1], step.process(255 - RAW))


def test_input_is_not_written_to() -> None:
    frozen = RAW.copy()
    frozen.setflags(write=False)
    for step in (EuclideanDistance(), Dilate(3), CLAHENormalizer(radius=4), ChannelSelector()):
        step.process(frozen)
    np.testing.assert_array_equal(frozen, RAW)


def test_channel_selector_tells_the_reader_and_changes_nothing() -> None:
    assert ChannelSelector("2").process(RAW) is RAW  # type: ignore[arg-type]
    assert raw_channel([Dilate(), ChannelSelector(2)]) == 2
    assert raw_channel([Dilate()]) is None
