"""Drawing boxes: a second viewer with the data and an annotation layer, and the boxes drawn in it, in nm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chunkloom.engine.volume import Volume
from chunkloom.errors import ParameterError
from chunkloom.viewer.contrast import contrast_range
from chunkloom.viewer.layers import LayerSpec, show

if TYPE_CHECKING:
    import neuroglancer

LAYER = "bounding boxes"


@dataclass(frozen=True)
class BoxNm:
    """A box in the world, z, y, x, nm."""

    offset: tuple[float, float, float]
    shape: tuple[float, float, float]

    @classmethod
    def parse(cls, data: Any) -> BoxNm:
        """From ``{"offset": [z, y, x], "shape": [z, y, x]}``. Raises `ParameterError` for anything else."""
        try:
            offset, shape = (tuple(float(v) for v in data[key]) for key in ("offset", "shape"))
        except (TypeError, KeyError, ValueError) as error:
            raise ParameterError(
                f"{data!r} is no box: expected {{offset: [z, y, x], shape: [z, y, x]}} in nm"
            ) from error
        if len(offset) != 3 or len(shape) != 3 or min(shape) <= 0:
            raise ParameterError(f"{data!r} is no box: expected three numbers each, and a shape above 0")
        return cls(offset, shape)

    def to_dict(self) -> dict[str, list[float]]:
        return {"offset": list(self.offset), "shape": list(self.shape)}


@dataclass(eq=False)
class BoxTool:
    """A viewer to draw boxes in."""

    dataset_path: str
    volume: Volume
    num_boxes: int
    viewer: neuroglancer.Viewer = field(repr=False)

    @classmethod
    def open(cls, dataset_path: str, volume: Volume, url: str, num_boxes: int, existing: list[BoxNm]) -> BoxTool:
        """Show the volume served at `url`, with the boxes there are, ready to draw more (Ctrl + click twice)."""
        import neuroglancer

        from chunkloom.viewer.bootstrap import new_viewer

        viewer = new_viewer()
        shown = contrast_range(volume) if volume.kind == "image" else None
        spec = LayerSpec.of_volume(volume, name="raw", url=url, display_range=shown)
        show(viewer, [spec])
        size = spec.voxel_size_nm
        with viewer.txn() as state:
            annotations = [
                neuroglancer.AxisAlignedBoundingBoxAnnotation(
                    id=f"box-{i}",
                    point_a=[o / v for o, v in zip(box.offset[::-1], size[::-1], strict=True)],
                    point_b=[
                        (o + s) / v for o, s, v in zip(box.offset[::-1], box.shape[::-1], size[::-1], strict=True)
                    ],
                )
                for i, box in enumerate(existing)
            ]
            dimensions = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units="nm", scales=list(size[::-1]))
            state.layers.append(
                name=LAYER,
                layer=neuroglancer.LocalAnnotationLayer(
                    dimensions=dimensions, annotations=annotations, annotation_color="#ffd24d"
                ),
            )
            state.layers[LAYER].layer.tool = "annotateBoundingBox"
            state.layers[LAYER].layer.tab = "annotations"
            state.selected_layer.layer = LAYER
            state.selected_layer.visible = True
        return cls(dataset_path, volume, num_boxes, viewer)

    def boxes(self) -> list[BoxNm]:
        """The boxes drawn so far, on whole voxels of the finest level."""
        grid = self.volume.levels[0].grid
        found = []
        for layer in self.viewer.state.layers:
            if layer.name != LAYER:
                continue
            for annotation in layer.layer.annotations:
                if type(annotation).__name__ != "AxisAlignedBoundingBoxAnnotation":
                    continue
                points = zip(annotation.point_a, annotation.point_b, strict=True)
                ends = [sorted((float(a), float(b))) for a, b in points][::-1]
                offset, shape = [], []
                for (lo, hi), size, corner in zip(ends, grid.voxel_size_nm, grid.corner_nm, strict=True):
                    # Neuroglancer counts from 0 nm in voxels; ours begin at the data's corner.
                    begin, end = round(lo - corner / size), round(hi - corner / size)
                    offset.append(corner + begin * size)
                    shape.append(max(1, end - begin) * size)
                found.append(BoxNm(tuple(offset), tuple(shape)))  # type: ignore[arg-type]
        return found
