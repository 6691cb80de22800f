from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.op import known_ops, make_op, parse_op
from chunkloom.engine.ops.python import allow_code, forbid_code
from chunkloom.errors import ChunkError, ParameterError

RAW = np.random.default_rng(8).integers(0, 255, (20, 21, 22)).astype(np.uint8)


@pytest.fixture
def _allowed():
    allow_code()
    yield
    forbid_code()


def test_code_is_refused_unless_it_is_allowed(tmp_path):
    touched = tmp_path / "touched"
    code = f"open({str(touched)!r}, 'w')\ndef apply(block): return block"
    for make in (
        lambda: ops.Python(code=code),
        lambda: make_op("python", {"code": code}),
        lambda: parse_op('{"op": "python", "code": "def apply(block): return block"}'),
    ):
        with pytest.raises(ParameterError, match=r"python.*--allow-code"):
            make()
    assert not touched.exists()
    assert "python" in known_ops()


@pytest.mark.usefixtures("_allowed")
def test_code_computes_blocks():
    volume = Pipeline(
        array_volume(RAW),
        [ops.Python(code="def apply(block):\n    return np.sqrt(block)", dtype="float32")],
        chunk=(8, 8, 8),
        cache=ChunkCache(),
    )
    assert np.allclose(volume.read(), np.sqrt(RAW.astype("f4")), rtol=1e-3)


@pytest.mark.usefixtures("_allowed")
def test_context_is_read_around_each_chunk():
    code = "import scipy.ndimage\ndef apply(block):\n    return scipy.ndimage.maximum_filter(block, 5)"
    volume = Pipeline(array_volume(RAW), [ops.Python(code=code, context=2)], chunk=(8, 8, 8), cache=ChunkCache())
    assert np.array_equal(volume.read(), ndimage.maximum_filter(RAW, 5, mode="nearest"))


@pytest.mark.usefixtures("_allowed")
def test_code_is_part_of_the_digest():
    codes = ["def apply(block):\n    return block", "def apply(block):\n    return block + 1"]
    assert len({Pipeline(array_volume(RAW), [ops.Python(code=code)]).digest for code in codes}) == 2


@pytest.mark.usefixtures("_allowed")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def apply(block)\n    return block", "SyntaxError in line 1"),
        ("1 / 0", "ZeroDivisionError in line 1"),
        ("x = 3", "defines no function apply"),
        ("apply = 3", "defines no function apply"),
    ],
    ids=["syntax", "at once", "nothing", "not a function"],
)
def test_code_that_cannot_run_is_refused(code, reason):
    with pytest.raises(ParameterError, match=reason):
        ops.Python(code=code)


@pytest.mark.usefixtures("_allowed")
@pytest.mark.parametrize(
    ("body", "reason"),
    [("missing(block)", "NameError in line 2"), ("block.__setitem__(0, 1)", "read-only"), ("block[:3]", "shape")],
    ids=["raises", "writes into the block", "wrong shape"],
)
def test_what_goes_wrong_in_a_block_is_said(body, reason):
    op = ops.Python(code=f"def apply(block):\n    return {body}")
    with pytest.raises((ChunkError, ParameterError), match=reason):
        Pipeline(array_volume(RAW), [op], chunk=(8, 8, 8), cache=ChunkCache()).read()


@pytest.mark.usefixtures("_allowed")
def test_parameters_that_cannot_be_are_refused():
    with pytest.raises(ParameterError, match="float99"):
        ops.Python(code="def apply(block): return block", dtype="float99")
    with pytest.raises(ParameterError, match="context is -1"):
        ops.Python(code="def apply(block): return block", context=-1)
