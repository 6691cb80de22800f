"""The bodies that requests carry. Extra members are passed over: older pages send more."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class SetData(BaseModel):
    """`POST /api/set-data`."""

    dataset_path: str = Field(description="Path or URL of a volume.")


class PipelineUpdate(BaseModel):
    """`PUT /api/pipeline`: both chains, as lists of flat steps."""

    input_norm: list[dict[str, Any]] = Field(description="Steps before the model, {name, **parameters}.")
    postprocess: list[dict[str, Any]] = Field(description="Steps after the model, {name, **parameters}.")
    builder: dict[str, Any] | None = Field(None, description="The builder's canvas, kept for its page.")


class Equivalences(BaseModel):
    """`POST …/update/equivalences`, by a model server."""

    dataset: str = Field(description="The layer's path on its server.")
    equivalences: list[list[int]] = Field(description="Groups of ids that are one object each.")


class ImageLayer(BaseModel):
    """`POST /api/viewer/add-image-layer`."""

    path: str
    name: str = Field(min_length=1)
    shader: str | None = None
    blend: Literal["default", "additive"] | None = None


class SegmentationLayer(BaseModel):
    """`POST /api/viewer/add-segmentation-layer`."""

    path: str
    name: str = Field(min_length=1)
    blend: str | None = None
    disable_meshes: bool = False


class RenameLayer(BaseModel):
    """`POST /api/viewer/rename-layer`."""

    old_name: str
    new_name: str = Field(min_length=1)


class RemoveLayer(BaseModel):
    """`POST /api/viewer/remove-layer`."""

    name: str


class CreateModel(BaseModel):
    """`POST /api/create-model-config`."""

    class_name: str = Field(description="A kind of model, as a word or as its class.")
    params: dict[str, Any] = Field(default_factory=dict)


class SelectModels(BaseModel):
    """`POST /api/models`: entries {type, name, …}."""

    selected_models: list[dict[str, Any]] = Field(default_factory=list)
    selected_hf_models: list[dict[str, Any]] = Field(default_factory=list)


class BoxesWanted(BaseModel):
    """`POST /api/bbx-generator`."""

    dataset_path: str | None = Field(None, description="The volume to draw on; the session's when left out.")
    num_boxes: int = Field(1, ge=0, le=10_000)
    existing_bounding_boxes: list[dict[str, Any]] = Field(default_factory=list, max_length=10_000)


class BlockwisePipeline(BaseModel):
    """`POST /api/blockwise/validate`, `generate` and `submit`."""

    pipeline: dict[str, Any] = Field(default_factory=dict, description="The builder's canvas.")
    job_name: str | None = None
    yaml_paths: list[str] = Field(default_factory=list)
    task_name: str | None = None


class BlockwisePaths(BaseModel):
    """`POST /api/blockwise/precheck`."""

    yaml_paths: list[str] = Field(default_factory=list)
