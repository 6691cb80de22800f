"""Which layers stand for the volumes of a server."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.engine.sources import array_volume
from chunkloom.errors import ParameterError
from chunkloom.viewer.scene import scene

SERVER = "http://127.0.0.1:8000"
RNG = np.random.default_rng(3)


def volume(dtype: str, kind: str | None = None, shape=(8, 8, 8)):
    return array_volume(RNG.integers(0, 100, shape).astype(dtype), kind=kind)


def test_raw_is_first_and_grey_within_sampled_values():
    layers = scene({"mito": volume("float32"), "raw": volume("uint8")}, SERVER, raw="raw")
    assert [(one.name, one.url, one.color, one.opacity) for one in layers] == [
        ("raw", f"{SERVER}/raw/zarr3", None, 1.0),
        ("mito", f"{SERVER}/mito/zarr3", "#4dc3ff", 0.5),
    ]
    assert layers[0].display_range is not None
    assert 0 <= layers[0].display_range[0] < layers[0].display_range[1] < 100
    assert layers[1].display_range is None


def test_labels_have_no_colour_and_signed_ids_come_as_zarr2():
    layers = scene({"raw": volume("uint8"), "a": volume("uint64"), "b": volume("int64")}, SERVER, raw="raw")
    assert [(one.kind, one.color, one.url.rpartition("/")[2]) for one in layers[1:]] == [
        ("labels", None, "zarr3"),
        ("labels", None, "zarr2"),
    ]


def test_what_cannot_be_shown_is_left_out_with_the_reason(caplog):
    layers = scene({"raw": volume("uint8"), "wide": volume("float64")}, SERVER, raw="raw")
    assert [one.name for one in layers] == ["raw"]
    assert "layer 'wide': Neuroglancer cannot show float64" in caplog.text


def test_nothing_that_can_be_shown_is_refused():
    with pytest.raises(ParameterError, match="nothing to show: layer 'raw': Neuroglancer cannot show float64"):
        scene({"raw": volume("float64")}, SERVER, raw="raw")


def test_raw_of_another_name_is_refused():
    with pytest.raises(ParameterError, match="no volume 'em'"):
        scene({"raw": volume("uint8")}, SERVER, raw="em")
