"""Models of fly_organelles: a TorchScript file, or a checkpoint of its StandardUnet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Names, Shape, VoxelSize, first_line, names_of
from chunkloom.models.kinds.torch_module import (
    LoadedModule,
    TorchModelConfig,
    load_state,
    load_tensors,
    load_torchscript,
    need_torch,
)
from chunkloom.settings import environment


class FlyModelConfig(TorchModelConfig):
    """A TorchScript file or a checkpoint of fly_organelles.

    Parameters
    ----------
    checkpoint_path
        A `.ts` file (TorchScript), or a checkpoint with `model_state_dict`, which needs the package fly_organelles.
    channels
        The names of the output channels.
    input_voxel_size
        nm; z, y, x, or one number for all.
    output_voxel_size
        nm. Default: the input's.
    name
        What its volume is called. Default: the file's name without its ending.
    input_size
        Voxels read by one forward. Default: 178, 178, 178.
    output_size
        Voxels written by one forward. Default: 56, 56, 56. Given together with input_size or not at all.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "fly"
    aliases: ClassVar[dict[str, str]] = {
        "checkpoint": "checkpoint_path",
        "classes": "channels",
        "resolution": "input_voxel_size",
        "output_resolution": "output_voxel_size",
    }

    def __init__(
        self,
        checkpoint_path: str,
        channels: Names,
        input_voxel_size: VoxelSize,
        output_voxel_size: VoxelSize | None = None,
        name: str | None = None,
        input_size: Shape | None = None,
        output_size: Shape | None = None,
        scale: str | None = None,
    ) -> None:
        if (input_size is None) != (output_size is None):
            raise ModelError("fly: input_size and output_size belong together: give both, or neither")
        self.checkpoint_path = Path(checkpoint_path)
        self.channels = names_of(channels)
        self.input_voxel_size = input_voxel_size
        self.output_voxel_size = output_voxel_size or input_voxel_size
        self.input_size = input_size or (178, 178, 178)
        self.output_size = output_size or (56, 56, 56)
        self.name = name
        self.scale = scale

    def load_module(self) -> LoadedModule:
        path = self.checkpoint_path
        geometry = ModelGeometry(
            input_voxel_size=self.input_voxel_size,
            output_voxel_size=self.output_voxel_size,
            input_shape=self.input_size,
            output_shape=self.output_size,
            output_channels=max(1, len(self.channels)),
            channel_names=self.channels,
        )
        module = load_torchscript(path) if path.suffix == ".ts" else self._checkpoint(len(self.channels))
        return LoadedModule(module, geometry, self.name or path.stem, (path,))

    def _checkpoint(self, channels: int) -> Any:
        torch, path = need_torch(f"fly model {self.checkpoint_path.name}"), self.checkpoint_path
        if path.is_file() and environment("ALLOW_PICKLE") == "1":
            try:
                found = torch.load(str(path), map_location="cpu", weights_only=False)
            except Exception as error:
                # Whatever the pickled program raises.
                raise ModelError(f"{path}: cannot be unpickled: {first_line(error)}") from error
            if isinstance(found, torch.nn.Module):
                return found
            state = found
        else:
            try:
                state = load_tensors(path)
            except ModelError as error:
                raise ModelError(
                    f"{error}. A whole pickled model runs what is in it: CHUNKLOOM_ALLOW_PICKLE=1 allows that"
                ) from error
        if "model_state_dict" not in state:
            raise ModelError(
                f"{path}: has no 'model_state_dict': expected a checkpoint of fly_organelles, or a .ts file"
            )
        try:
            from fly_organelles.model import StandardUnet
        except ImportError as error:
            raise ModelError(
                f"{path}: a checkpoint needs the package fly_organelles, which is not installed: install it, or export "
                "the model to TorchScript (.ts)"
            ) from error
        unet = StandardUnet(channels)
        load_state(unet, state["model_state_dict"], path)
        return torch.nn.Sequential(unet, torch.nn.Sigmoid())
