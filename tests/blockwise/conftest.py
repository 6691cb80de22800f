"""A model with a context of one voxel, a volume whose corner is not at zero, and task files over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from blockwise_model import SHAPE, VOXEL_NM, box_mean_model
from chunkloom.engine.sources import array_volume


@pytest.fixture(scope="session")
def box_mean(tmp_path_factory) -> Path:
    return box_mean_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def raw(tmp_path_factory) -> Path:
    from chunkloom.engine.materialize import materialize

    data = np.random.default_rng(7).integers(0, 255, SHAPE, np.uint8)
    volume = array_volume(data, voxel_size_nm=VOXEL_NM, corner_nm=(-5.24, 12.5, 3.24), chunk=(8, 8, 8))
    folder = tmp_path_factory.mktemp("raw") / "em.zarr"
    materialize(volume, folder, format="zarr2", codec="none")
    return folder


@pytest.fixture
def write_task(tmp_path, box_mean, raw):
    """Write a task file: ``write_task(**changes) -> path``."""

    def write(file="task.yaml", **changes) -> Path:
        data = {
            "data_path": str(raw),
            "output_path": str(tmp_path / "out.zarr"),
            "task_name": "run",
            "workers": 1,
            "models": [{"type": "onnx", "name": "mean", "path": str(box_mean)}],
            "json_data": {"input_norm": [{"name": "MinMaxNormalizer", "min_value": 0, "max_value": 255}]},
        }
        data = {key: value for key, value in {**data, **changes}.items() if value is not None}
        (tmp_path / file).write_text(yaml.safe_dump(data))
        return tmp_path / file

    return write
