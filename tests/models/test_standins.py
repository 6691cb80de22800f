"""Cellpose, DaCapo, TensorFlow and fly_organelles on stand-ins that have the interface of the package, not its code.

The packages themselves cannot be installed beside the others; what is tested is how they are called and what is made
of what they give.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from chunkloom.errors import ModelError
from chunkloom.models.registry import build_model

torch = pytest.importorskip("torch", reason="needs the torch extra")


def stand_in(monkeypatch, name, **names):
    """A module of that name with those members, and its parents."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        at = ".".join(parts[:i])
        if not isinstance(sys.modules.get(at), ModuleType):
            monkeypatch.setitem(sys.modules, at, ModuleType(at))
    for key, value in names.items():
        setattr(sys.modules[name], key, value)


class StandInCellpose:
    """`cellpose.models.CellposeModel` 4: eval of a list of slices gives masks, flows and styles of each."""

    made: ClassVar[dict[str, object]] = {}

    def __init__(self, gpu=False, pretrained_model="cpsam"):
        type(self).made = {"gpu": gpu, "pretrained_model": pretrained_model}

    def eval(self, x, batch_size=8, diameter=None):
        type(self).made |= {"batch_size": batch_size, "diameter": diameter}
        masks = [(s > 0.5).astype(np.uint16) * 7 for s in x]
        flows = [[np.zeros((*s.shape, 3), np.uint8), np.stack([s * 2, s * 3]), s - 0.5] for s in x]
        return masks, flows, [np.zeros(256)] * len(x)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("cellprob", lambda s: [s - 0.5]),
        ("flows", lambda s: [s * 2, s * 3, s - 0.5]),
        ("mask", lambda s: [s > 0.5]),
    ],
)
def test_cellpose_by_slices(monkeypatch, output, expected):
    stand_in(monkeypatch, "cellpose", core=SimpleNamespace(use_gpu=lambda: False))
    sys.modules["cellpose"].models = SimpleNamespace(CellposeModel=StandInCellpose)
    entry = {"type": "cellpose", "voxel_size": [40, 8, 8], "output": output, "slices_per_chunk": 2}
    loaded = build_model({**entry, "slice_size": 24, "context": 4, "diameter": 30}).load()
    block = np.random.default_rng(0).random((1, 2, 24, 24), dtype=np.float32)
    assert loaded.geometry.context == (0, 4, 4)
    found = loaded.forward(block)
    assert np.allclose(found, np.stack(expected(block[0]))[:, :, 4:-4, 4:-4])
    assert found.shape == (loaded.geometry.output_channels, 2, 16, 16)
    assert StandInCellpose.made == {"gpu": False, "pretrained_model": "cpsam", "batch_size": 8, "diameter": 30}


class StandInModel(torch.nn.Conv3d):
    """A DaCapo model: a torch module that knows its shapes."""

    eval_input_shape = (12, 12, 12)

    def compute_output_shape(self, shape):
        return self.out_channels, tuple(n - 2 for n in shape)

    def scale(self, voxel_size):
        return voxel_size


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (SimpleNamespace(channels=["mito", "er", "ld"]), ("mito", "er", "ld")),
        (
            SimpleNamespace(predictor=SimpleNamespace(neighborhood=[(1, 0, 0), (0, 1, 0), (0, 0, 1)])),
            ("aff_1_0_0", "aff_0_1_0", "aff_0_0_1"),
        ),
        (SimpleNamespace(), ()),
    ],
)
def test_a_dacapo_run(monkeypatch, task, names):
    trained = StandInModel(1, 3, 3)
    run = SimpleNamespace(
        model=StandInModel(1, 3, 3),
        task=task,
        datasplit=SimpleNamespace(train=[SimpleNamespace(raw=SimpleNamespace(voxel_size=(8, 8, 8)))]),
    )
    asked = []
    configs = SimpleNamespace(retrieve_run_config=lambda name: asked.append(name) or "config")
    weights = SimpleNamespace(
        retrieve_weights=lambda name, n: asked.append(n) or SimpleNamespace(model=trained.state_dict())
    )
    stand_in(monkeypatch, "dacapo.experiments", Run=lambda config: run)
    stand_in(
        monkeypatch,
        "dacapo.store.create_store",
        create_config_store=lambda: configs,
        create_weights_store=lambda: weights,
    )
    loaded = build_model({"type": "dacapo", "run_name": "r", "iteration": 100}).load()
    assert asked == ["r", 100]
    assert loaded.geometry.channel_names == names
    assert loaded.geometry.output_shape == (10, 10, 10)
    block = np.random.default_rng(0).random((1, 12, 12, 12), dtype=np.float32)
    expected = trained(torch.from_numpy(block)[None])[0].detach().numpy()
    assert np.abs(loaded.forward(block) - expected).max() <= 1e-5


@pytest.mark.parametrize("axes", [5, 4])
def test_a_saved_model_has_its_channels_last(monkeypatch, tmp_path, axes):
    shape = (1, 6, 6, 6, 1)[:axes]

    class Signature:
        structured_input_signature = ((), {"x": SimpleNamespace(shape=shape, dtype="float32")})

        def __call__(self, x):
            assert x.shape == shape
            out = np.stack([x, x * 2], axis=-1)[..., 0, :] if axes == 5 else np.stack([x, x * 2], axis=-1)
            return {"out": SimpleNamespace(numpy=lambda: out)}

    stand_in(
        monkeypatch,
        "tensorflow",
        saved_model=SimpleNamespace(load=lambda path: SimpleNamespace(signatures={"serving_default": Signature()})),
        constant=lambda array, dtype: np.asarray(array, dtype),
    )
    (tmp_path / "saved_model.pb").touch()
    entry = {"type": "tensorflow", "path": str(tmp_path), "input_voxel_size": 8, "input_size": 6}
    loaded = build_model({**entry, "channels": "one,two"}).load()
    block = np.random.default_rng(0).random((1, 6, 6, 6), dtype=np.float32)
    assert np.array_equal(loaded.forward(block), np.concatenate([block, block * 2]))


def test_a_checkpoint_of_fly_organelles_ends_in_a_sigmoid(monkeypatch, tmp_path):
    class StandardUnet(torch.nn.Conv3d):
        """`fly_organelles.model.StandardUnet`: made from the number of channels."""

        def __init__(self, channels):
            super().__init__(1, channels, 3)

    stand_in(monkeypatch, "fly_organelles.model", StandardUnet=StandardUnet)
    trained = StandardUnet(2)
    torch.save({"model_state_dict": trained.state_dict(), "iterations": 5}, tmp_path / "model_5.pt")
    entry = {"type": "fly", "checkpoint_path": str(tmp_path / "model_5.pt"), "channels": "a,b", "input_voxel_size": 8}
    loaded = build_model({**entry, "input_size": 12, "output_size": 10}).load()
    block = np.random.default_rng(0).random((1, 12, 12, 12), dtype=np.float32)
    expected = torch.sigmoid(trained(torch.from_numpy(block)[None]))[0].detach().numpy()
    assert np.abs(loaded.forward(block) - expected).max() <= 1e-5


def test_one_of_the_two_sizes_alone_is_refused():
    with pytest.raises(ModelError, match="belong together"):
        build_model({"type": "fly", "checkpoint_path": "a", "channels": "a", "input_voxel_size": 8, "input_size": 64})
