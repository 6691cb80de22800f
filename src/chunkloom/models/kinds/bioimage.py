"""bioimage.io models: a local package whose description (RDF 0.4 or 0.5) says tiles, halo, pre- and postprocessing.

The package's ONNX or TorchScript weights are run; a package with neither is refused. Pre- and postprocessing are those
of the description, over each tile.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom import settings
from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, LoadedModel, ModelConfig, VoxelSize, file_version
from chunkloom.models.kinds.bioimage_rdf import read_description
from chunkloom.models.kinds.bioimage_steps import processing
from chunkloom.models.kinds.onnx import open_session
from chunkloom.models.kinds.torch_module import best_device, load_torchscript, need_torch

DESCRIPTIONS = ("rdf.yaml", "bioimageio.yaml", "model.yaml")


class BioimageModelConfig(ModelConfig):
    """A local bioimage.io package.

    Parameters
    ----------
    model
        The folder, the `.zip`, or the description (`rdf.yaml`) in the folder.
    voxel_size
        nm; z, y, x, or one number for all.
    edge_length_to_process
        Voxels of a tile along each axis whose size is free, halo included; the nearest size that the description
        allows is taken. Default: 128 for three axes, 512 for two.
    weight_format
        "onnx" or "torchscript". Default: what the package has.
    name
        What its volume is called. Default: the name in the description.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "bioimage"
    other_names: ClassVar[tuple[str, ...]] = ("bio",)
    aliases: ClassVar[dict[str, str]] = {"model_name": "model", "model_path": "model"}

    def __init__(
        self,
        model: str,
        voxel_size: VoxelSize,
        edge_length_to_process: int | None = None,
        weight_format: str | None = None,
        name: str | None = None,
        scale: str | None = None,
    ) -> None:
        self.model = Path(model)
        self.voxel_size = voxel_size
        self.edge = edge_length_to_process
        self.weight_format = weight_format
        self.name = name
        self.scale = scale

    def load(self) -> LoadedModel:
        path = description_path(self.model)
        rdf = read_description(path)
        chosen, weights = rdf.weights(self.weight_format)
        tile = rdf.tile(self.edge)
        run, device = _runner(chosen, weights)
        before, after = processing(rdf.preprocessing, path), processing(rdf.postprocessing, path)
        geometry = ModelGeometry(
            input_voxel_size=self.voxel_size,
            output_voxel_size=tuple(v * f for v, f in zip(self.voxel_size, tile.factor, strict=True)),  # type: ignore[arg-type]
            input_shape=tile.input_shape,
            output_shape=tile.output_shape,
            output_channels=rdf.output_channels,
            channel_names=rdf.channel_names,
            input_channels=rdf.input_channels,
        )
        inner = (slice(None), *(slice(h, h + n) for h, n in zip(tile.halo, tile.output_shape, strict=True)))

        def forward(block: Array) -> Array:
            given = rdf.arrange(before(block, None))
            out = rdf.channels_first(run(given))
            return np.asarray(after(out, block), np.float32)[inner]

        return LoadedModel(
            name=self.name or rdf.name,
            geometry=geometry,
            forward=forward,
            device=device,
            version=file_version(path, weights),
        )


def description_path(model: Path) -> Path:
    """The description of a package given as itself, its folder or a `.zip`, which is unpacked into our home."""
    if model.suffix == ".zip" and model.is_file():
        model = _unpacked(model)
    if model.is_dir():
        found = next((model / name for name in DESCRIPTIONS if (model / name).is_file()), None)
        if found is None:
            raise ModelError(f"{model}: has none of {', '.join(DESCRIPTIONS)}")
        return found
    if not model.is_file():
        raise ModelError(
            f"no such bioimage.io package: {model}: expected a folder or .zip on this machine (download it first)"
        )
    return model


def _unpacked(archive: Path) -> Path:
    target = settings.home() / "bioimage" / file_version(archive)
    done = target / ".unpacked"
    if not done.exists():
        try:
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(target)  # it takes "..", and roots, out of names
        except zipfile.BadZipFile as error:
            raise ModelError(f"{archive}: is not a zip file: {error}") from error
        except OSError as error:
            raise ModelError(f"{archive}: cannot be unpacked into {target}: {error.strerror}") from error
        done.touch()
    return target


def _runner(chosen: str, weights: Path) -> tuple[Any, str]:
    if chosen == "onnx":
        session = open_session(weights)
        given, wanted = session.get_inputs()[0].name, session.get_outputs()[0].name
        device = "cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu"
        return lambda array: np.asarray(session.run([wanted], {given: array})[0]), device
    torch = need_torch(f"bioimage.io model {weights.parent.name}")
    on = best_device(torch)
    module = load_torchscript(weights).to(on).eval()

    def run(array: Array) -> Array:
        with torch.inference_mode():
            return np.asarray(module(torch.from_numpy(array).to(on)).float().cpu().numpy())

    return run, str(on)
