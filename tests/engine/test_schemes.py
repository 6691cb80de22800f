"""Sources that a plug-in adds: volumes by a scheme of its own."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from chunkloom import array_volume, open_volume
from chunkloom.engine.sources import Source
from chunkloom.engine.sources.schemes import known_sources
from chunkloom.errors import ChunkloomError, ParameterError


@pytest.fixture
def ramp():
    """A source of ramps: `ramp://SIDE`."""

    class Ramp(Source):
        scheme = "ramp"

        @classmethod
        def open(cls, address):
            side = int(address.removeprefix("ramp://"))
            return array_volume(np.arange(side**3).reshape((side,) * 3)) if side else "nothing"

    yield Ramp
    del Ramp
    gc.collect()


@pytest.mark.usefixtures("ramp")
def test_a_source_is_known_from_when_it_was_made():
    assert list(known_sources()) == ["ramp"]
    assert open_volume("ramp://3").read()[0, 1, 2] == 5
    assert open_volume("RAMP://3".lower(), voxel_size_nm=1).levels[0].shape == (3, 3, 3)


@pytest.mark.usefixtures("ramp")
def test_what_it_gives_must_be_a_volume():
    with pytest.raises(ParameterError, match="ramp:// gave a str"):
        open_volume("ramp://0")


def test_schemes_of_chunkloom_cannot_be_taken():
    class Taken(Source):
        scheme = "synthetic"

        @classmethod
        def open(cls, address):
            raise AssertionError

    assert open_volume("synthetic://cube").levels[0].shape == (128, 128, 128)


def test_unknown_schemes_are_refused():
    with pytest.raises(ChunkloomError):
        open_volume("nosuch://x")
