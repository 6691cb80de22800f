"""Models on a Hugging Face Hub: a cellmap-models export in a repository, at a revision.

What was downloaded is kept in the Hub client's own cache and answers without a network. `HF_ENDPOINT`, `HF_HOME`,
`HF_HUB_OFFLINE` and the person's login are the client's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from chunkloom.errors import ModelError
from chunkloom.models.kinds.base import first_line, missing_extra
from chunkloom.models.kinds.cellmap import LOADERS, METADATA, load_export
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig


class HuggingFaceModelConfig(TorchModelConfig):
    """A model in a repository of a Hugging Face Hub.

    Parameters
    ----------
    repo
        The repository, as "owner/name".
    revision
        A commit, tag or branch. Default: the newest; give a commit to get the same model every time.
    name
        What its volume is called. Default: the repository's name without its owner.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "huggingface"
    # Older entries repeat what the repository's metadata says.
    ignored: ClassVar[tuple[str, ...]] = (
        "model_name",
        "model_type",
        "framework",
        "spatial_dims",
        "in_channels",
        "out_channels",
        "iteration",
        "input_voxel_size",
        "output_voxel_size",
        "channels_names",
        "input_shape",
        "output_shape",
        "inference_input_shape",
        "inference_output_shape",
        "description",
        "author",
    )

    def __init__(
        self, repo: str, revision: str | None = None, name: str | None = None, scale: str | None = None
    ) -> None:
        self.repo = repo
        self.revision = revision
        self.name = name
        self.scale = scale

    def load_module(self) -> LoadedModule:
        metadata = self._download(METADATA)
        # The same commit for both files, also where a branch moves in between.
        commit = metadata.parent.name
        for name in LOADERS:
            weights = self._download_if_there(name, commit)
            if weights is not None:
                return load_export(metadata, weights, self.name or self.repo.rpartition("/")[2])
        raise ModelError(f"{self._where()}: has none of {', '.join(LOADERS)}")

    def _where(self) -> str:
        return f"Hub repository {self.repo!r}" + (f" at {self.revision!r}" if self.revision else "")

    def _download(self, name: str, revision: str | None = None) -> Path:
        hub = self._hub()
        try:
            return Path(hub.hf_hub_download(self.repo, name, revision=revision or self.revision))
        except hub.errors.EntryNotFoundError as error:
            if isinstance(error, hub.errors.LocalEntryNotFoundError):
                raise ModelError(
                    f"{self._where()}: {name} is not in the cache, and the Hub cannot be reached (or HF_HUB_OFFLINE is "
                    "set): connect once to download it"
                ) from error
            raise ModelError(f"{self._where()}: has no {name}: expected an export of cellmap-models") from error
        except hub.errors.RepositoryNotFoundError as error:
            raise ModelError(f"{self._where()}: not found; a private one needs `hf auth login`") from error
        except hub.errors.RevisionNotFoundError as error:
            raise ModelError(f"{self._where()}: the repository has no such revision") from error
        except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
            raise ModelError(f"{self._where()}: {name} could not be had: {first_line(error)}") from error

    def _download_if_there(self, name: str, revision: str) -> Path | None:
        hub = self._hub()
        found = hub.try_to_load_from_cache(self.repo, name, revision=revision)
        if isinstance(found, str):
            return Path(found)
        try:
            return Path(hub.hf_hub_download(self.repo, name, revision=revision))
        except hub.errors.LocalEntryNotFoundError:
            if name != list(LOADERS)[-1]:
                return None
            return self._download(name, revision)
        except hub.errors.EntryNotFoundError:
            return None
        except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
            raise ModelError(f"{self._where()}: {name} could not be had: {first_line(error)}") from error

    def _hub(self) -> Any:
        try:
            import huggingface_hub
            import huggingface_hub.errors
        except ImportError as error:
            raise missing_extra(self._where(), "huggingface_hub", "huggingface") from error
        return huggingface_hub
