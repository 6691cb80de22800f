"""bioimage.io packages: their test tensors are reproduced, and tiles are as bioimage.io's own package makes them."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from chunkloom.errors import ModelError
from chunkloom.models.registry import build_model

torch = pytest.importorskip("torch", reason="needs the torch extra")


class Net(torch.nn.Module):
    """Same size in and out; what lies at the border of a tile is less right, hence its halo."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        conv = torch.nn.Conv3d if dims == 3 else torch.nn.Conv2d
        self.a = conv(1, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x)


def preprocessing(values, version):
    """Each value as float32, by the formula of the format."""
    mean, std = values.mean(), values.std()
    return ((values - mean) / (std + 1e-6)).astype(np.float32)


def package(folder: Path, version: str, dims: int = 3, halo: int = 2) -> Path:
    folder.mkdir(parents=True)
    size = (16,) * dims
    net = Net(dims)
    torch.jit.trace(net, (torch.zeros(1, 1, *size),)).save(str(folder / "weights.pt"))
    values = np.random.default_rng(3).normal(100, 20, (1, 1, *size)).astype(np.float32)
    with torch.inference_mode():
        raw = net(torch.from_numpy(preprocessing(values, version))).numpy()
    np.save(folder / "in.npy", values)
    np.save(folder / "out.npy", 1 / (1 + np.exp(-raw)))
    (folder / "README.md").write_text("made in a test")
    space = "zyx"[-dims:]
    common = {
        "name": "made in a test",
        "description": "one convolution",
        "type": "model",
        "documentation": "README.md",
        "license": "MIT",
        "authors": [{"name": "Somebody"}],
        "cite": [{"text": "none", "doi": "10.1234/abc"}],
    }
    if version.startswith("0.5"):

        def axes(names, more):
            made = [{"type": "batch"}, {"type": "channel", "channel_names": names}]
            return made + [{"type": "space", "id": a, **more(a)} for a in space]

        data = {
            "format_version": version,
            **common,
            "inputs": [
                {
                    "id": "raw",
                    "axes": axes(["raw"], lambda a: {"size": {"min": 8, "step": 4}}),
                    "data": {"type": "float32"},
                    "test_tensor": {"source": "in.npy"},
                    "preprocessing": [
                        {"id": "zero_mean_unit_variance", "kwargs": {"axes": ["channel", *space]}},
                        {"id": "ensure_dtype", "kwargs": {"dtype": "float32"}},
                    ],
                }
            ],
            "outputs": [
                {
                    "id": "prob",
                    "axes": axes(
                        ["fg", "edge"],
                        lambda a: {
                            "size": {"tensor_id": "raw", "axis_id": a, "offset": 0},
                            **({"halo": halo} if halo else {}),
                        },
                    ),
                    "data": {"type": "float32"},
                    "test_tensor": {"source": "out.npy"},
                    "postprocessing": [{"id": "sigmoid"}],
                }
            ],
            "weights": {"torchscript": {"source": "weights.pt", "pytorch_version": "2.6"}},
        }
    else:
        given = "bc" + space
        ones, zeros = [1] * len(given), [0] * len(given)
        data = {
            "format_version": version,
            **common,
            "timestamp": "2024-01-01T00:00:00",
            "test_inputs": ["in.npy"],
            "test_outputs": ["out.npy"],
            "inputs": [
                {
                    "name": "raw",
                    "axes": given,
                    "data_type": "float32",
                    "shape": {"min": [1, 1, *[8] * dims], "step": [0, 0, *[4] * dims]},
                    "preprocessing": [
                        {"name": "zero_mean_unit_variance", "kwargs": {"mode": "per_sample", "axes": "c" + space}}
                    ],
                }
            ],
            "outputs": [
                {
                    "name": "prob",
                    "axes": given,
                    "data_type": "float32",
                    "halo": [0, 0, *[halo] * dims],
                    "shape": {"reference_tensor": "raw", "scale": [1.0, 2.0, *ones[2:]], "offset": zeros},
                    "postprocessing": [{"name": "sigmoid"}],
                }
            ],
            "weights": {
                "torchscript": {
                    "source": "weights.pt",
                    "pytorch_version": "2.6",
                    "sha256": hashlib.sha256((folder / "weights.pt").read_bytes()).hexdigest(),
                }
            },
        }
    (folder / "rdf.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return folder


def inner(array, dims):
    """Without the halo, (c, z, y, x)."""
    cut = array[0][(slice(None), *[slice(2, -2)] * dims)]
    return cut if dims == 3 else cut[:, np.newaxis]


@pytest.mark.parametrize("dims", [3, 2])
@pytest.mark.parametrize("version", ["0.4.10", "0.5.4"])
def test_the_test_tensors_are_reproduced(version, dims, tmp_path):
    folder = package(tmp_path / "package", version, dims)
    loaded = build_model(
        {"type": "bioimage", "model_name": str(folder), "voxel_size": 8, "edge_length_to_process": 16}
    ).load()
    given, expected = np.load(folder / "in.npy"), np.load(folder / "out.npy")
    block = given[0] if dims == 3 else given[0][:, np.newaxis]
    assert loaded.geometry.input_shape == ((16,) * 3 if dims == 3 else (1, 16, 16))
    assert loaded.geometry.context == ((2,) * 3 if dims == 3 else (0, 2, 2))
    assert loaded.geometry.output_channels == 2
    assert np.abs(loaded.forward(block) - inner(expected, dims)).max() <= 1e-5


def test_a_zip_is_as_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_HOME", str(tmp_path / "home"))
    folder = package(tmp_path / "package", "0.5.4")
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    entry = {"type": "bioimage", "voxel_size": 8, "edge_length_to_process": 16}
    one = build_model({**entry, "model": str(folder)}).load()
    two = build_model({**entry, "model": str(tmp_path / "package.zip")}).load()
    assert one.version == two.version


@pytest.mark.parametrize(
    ("found", "other", "words"),
    [
        ("format_version: 0.5.4", "format_version: 0.3.0", "expected 0.4 or 0.5"),
        ("id: sigmoid", "id: sigmoyd", "did you mean 'sigmoid'"),
        ("source: weights.pt", "source: ../../weights.pt", "within the package"),
        ("torchscript:", "keras_hdf5:", "expected onnx or torchscript"),
    ],
)
def test_what_cannot_be_run_is_refused(found, other, words, tmp_path):
    folder = package(tmp_path / "package", "0.5.4")
    text = (folder / "rdf.yaml").read_text()
    assert found in text
    (folder / "rdf.yaml").write_text(text.replace(found, other))
    with pytest.raises(ModelError, match=words):
        build_model({"type": "bioimage", "model": str(folder), "voxel_size": 8}).load()


@pytest.mark.skipif(importlib.util.find_spec("bioimageio") is None, reason="needs bioimageio.core: ./run test-bioimage")
# A declared halo of 0.5 makes that package widen the tile before it takes the statistics.
@pytest.mark.parametrize(
    ("version", "halo", "tolerance"), [("0.4.10", 2, 1e-5), ("0.5.4", 0, 1e-5), ("0.5.4", 2, 5e-3)]
)
def test_a_tile_equals_that_of_its_own_package(version, halo, tolerance, tmp_path):
    from bioimageio.core import predict
    from bioimageio.spec import load_model_description

    folder = package(tmp_path / "package", version, halo=halo)
    loaded = build_model(
        {"type": "bioimage", "model": str(folder), "voxel_size": 8, "edge_length_to_process": 16}
    ).load()
    values = np.random.default_rng(9).normal(90, 30, (1, 1, 16, 16, 16)).astype(np.float32)
    theirs = load_model_description(folder / "rdf.yaml", perform_io_checks=False)
    sample = predict(model=theirs, inputs={str(getattr(theirs.inputs[0], "id", "raw")): values})
    (out,) = sample.members.values()
    expected = np.asarray(out.data.values if hasattr(out.data, "values") else out.data)
    ours = loaded.forward(values[0]) if halo else loaded.forward(values[0])[:, 2:-2, 2:-2, 2:-2]
    assert np.abs(ours - inner(expected, 3)).max() <= tolerance
