"""Scripts of existing users run as they are: their imports, and functions in place of a module."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from chunkloom.errors import ModelError
from chunkloom.models import older_imports as older
from chunkloom.models.registry import parse_model

HEAD = """
import numpy as np
input_voxel_size, output_voxel_size = (8, 8, 8), 8
read_shape, write_shape = (96, 96, 96), (64, 64, 64)
output_channels = 1
"""


def load(folder, text):
    path = folder / "older.py"
    path.write_text(HEAD + text)
    return parse_model(str(path)).load()


def block():
    return np.random.default_rng(0).random((1, 12, 12, 12), dtype=np.float32)


def test_older_imports_give_our_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(older, "_said", set())
    text = """
from cellmap_flow.norm.input_normalize import MinMaxNormalizer
from cellmap_flow.post.postprocessors import DefaultPostprocessor
from cellmap_flow.models.models_config import ScriptModelConfig, Config
from cellmap_flow.utils.serialize_config import Config as Same
from cellmap_flow.globals import g
import cellmap_flow.models.models_config as mc
assert Config is Same and Config(a=1).a == 1 and mc.ScriptModelConfig is ScriptModelConfig and g.input_norms == []
norm = MinMaxNormalizer()

def process_chunk(idi, roi):
    from cellmap_flow.norm.input_normalize import ZScoreNormalizer
    return idi.to_ndarray_ts(roi.grow((16, 16, 16), (16, 16, 16)))[2:-2, 2:-2, 2:-2]
"""
    with pytest.warns(DeprecationWarning, match=r"MinMaxNormalizer is chunkloom\.chain\.normalizers\.MinMax"):
        loaded = load(tmp_path, text)
    assert np.array_equal(loaded.forward(block()), block()[:, 2:-2, 2:-2, 2:-2])
    assert "cellmap_flow" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        __import__("cellmap_flow")


def test_an_older_module_without_counterpart_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"cellmap_flow\.gone"):
        load(tmp_path, "import cellmap_flow.gone")


def test_predict_in_place_of_a_module(tmp_path):
    text = """
def predict(read_roi, write_roi, config, *, idi, device, use_half_prediction):
    assert config.output_channels == 1
    return idi.to_ndarray_ts(read_roi)[2:-2, 2:-2, 2:-2] * 2
"""
    assert np.array_equal(load(tmp_path, text).forward(block()), block()[:, 2:-2, 2:-2, 2:-2] * 2)


def test_a_function_that_reads_beyond_its_context_is_refused(tmp_path):
    text = "def process_chunk(idi, roi):\n    return idi.to_ndarray_ts(roi.grow(24, 24))\n"
    with pytest.raises(ModelError, match="read_shape"):
        load(tmp_path, text).forward(block())


def test_a_function_that_gives_no_array_is_refused(tmp_path):
    with pytest.raises(ModelError, match="expected an array"):
        load(tmp_path, "def process_chunk(idi, roi):\n    return 1\n").forward(block())
