"""Volumes as Neuroglancer layers: raw in grey, predictions coloured over it, labels, masks; and a view that shows them.

A `LayerSpec` says what a layer shows; the functions turn it into layers of the `neuroglancer` package (imported on
first use). Layers take the plain http address a volume is served at, and know nothing of the server behind it.

Neuroglancer counts coordinates from the corner of voxel 0, in voxels of the view's dimensions, and names them x, y, z
(the first two are what its "xy" panel shows). Placement of a volume comes from its own metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chunkloom.errors import ParameterError, nearest
from chunkloom.viewer.shaders import mask_shader, prediction_shader_for, raw_shader

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.engine.volume import Kind, Volume

PALETTE = ("#ff4d4d", "#4dc3ff", "#ffd24d", "#7dff6b", "#d98cff", "#ff9b3d", "#3dffd8", "#ff7ac8")

# What Neuroglancer can draw. Its zarr v3 source has no signed 64-bit type; its v2 source reads those as unsigned.
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
# Format word of an address's last segment, to the source scheme that reads it without probing for others.
SCHEMES = {"zarr": "zarr2", "zarr2": "zarr2", "zarr3": "zarr3"}

# A panel of the four of a 1280 x 800 window, less some air. Volumes are scaled to fit it.
PANEL_PX = (560, 330)


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One volume as a layer.

    Attributes
    ----------
    name
        What the layer is called in the viewer.
    url
        Where the volume is served in one format, ``http://127.0.0.1:PORT/NAME/zarr3``. zarr3 is the one to show:
        Neuroglancer first asks a zarr v2 group for a `.zarray` it does not have, which is a 404 in the log.
    kind
        "image" (grey without a `color`), "labels" (a colour an id) or "mask" (coloured where not 0).
    voxel_size_nm, corner_nm
        Of the finest level, z, y, x, nm.
    shape
        Of the finest level, channel axes first.
    dtype
        Name of the numpy dtype.
    display_range
        Values shown black and white (or clear and coloured); the dtype's own range where None.
    color
        "#rrggbb", for predictions and masks.
    opacity
        0 to 1, times what the shader gives.
    blend
        How an image is put over those before it.
    channel_axes
        Names of the channel axes, as many as `shape` has beyond three.
    dear
        Whether its chunks take long to compute: the view then opens near enough to ask for the finest alone.
    shader
        The program of an image layer in place of the one that suits its kind.

    Raises
    ------
    ParameterError
        Something that Neuroglancer cannot show, or does not fit together.
    """

    name: str
    url: str
    kind: Kind
    voxel_size_nm: tuple[float, float, float]
    corner_nm: tuple[float, float, float]
    shape: tuple[int, ...]
    dtype: str
    display_range: tuple[float, float] | None = None
    color: str | None = None
    opacity: float = 1.0
    blend: Literal["default", "additive"] = "default"
    visible: bool = True
    channel_axes: tuple[str, ...] = ()
    dear: bool = False
    shader: str | None = None

    def __post_init__(self) -> None:
        where = f"layer {self.name!r}"
        scheme_of(self.url)
        if self.kind not in ("image", "labels", "mask"):
            raise ParameterError(
                f"{where}: unknown kind {self.kind!r}: {nearest(self.kind, ['image', 'labels', 'mask'])}"
            )
        if len(self.shape) != 3 + len(self.channel_axes):
            raise ParameterError(
                f"{where}: shape {self.shape} does not fit channel axes {self.channel_axes} and z, y, x"
            )
        if len(self.channel_axes) > 1 and self.kind != "labels":
            raise ParameterError(
                f"{where}: {len(self.channel_axes)} channel axes ({', '.join(self.channel_axes)}), at most one can be "
                f"shown: open the volume with one of them selected"
            )
        if self.color is not None and not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise ParameterError(f"{where}: colour {self.color!r} is not of the form #rrggbb")
        if not 0 <= self.opacity <= 1:
            raise ParameterError(f"{where}: opacity {self.opacity} is not between 0 and 1")
        if self.display_range is not None and not self.display_range[0] < self.display_range[1]:
            raise ParameterError(f"{where}: display range {self.display_range} is empty: expected low < high")
        self._check_dtype(where)

    def _check_dtype(self, where: str) -> None:
        if self.dtype == "int64" and self.kind == "labels":
            if scheme_of(self.url) == "zarr3":
                raise ParameterError(f"{where}: Neuroglancer reads int64 from zarr v2 only: give the zarr2 address")
        elif self.dtype not in DTYPES:
            raise ParameterError(
                f"{where}: Neuroglancer cannot show {self.dtype}: serve the volume cast to one of {', '.join(DTYPES)}"
            )
        if self.kind == "labels" and self.dtype == "float32":
            raise ParameterError(f"{where}: labels are whole numbers, found {self.dtype}: show it as an image")
        if self.kind == "mask" and self.dtype == "uint64":
            raise ParameterError(
                f"{where}: a mask of {self.dtype} cannot be shown: show it as labels, or cast to uint8"
            )

    @classmethod
    def of_volume(
        cls,
        volume: Volume,
        *,
        name: str,
        url: str,
        color: str | None = None,
        display_range: tuple[float, float] | None = None,
        opacity: float | None = None,
        visible: bool = True,
    ) -> LayerSpec:
        """The layer of a volume served at `url`; `opacity` by what it is, so that what lies below stays visible."""
        finest = volume.levels[0]
        overlay = volume.kind != "image" or color is not None
        return cls(
            name=name,
            url=url,
            kind=volume.kind,
            voxel_size_nm=_three(finest.grid.voxel_size_nm),
            corner_nm=_three(finest.grid.corner_nm),
            shape=finest.shape,
            dtype=finest.dtype.name,
            display_range=display_range,
            color=color,
            opacity=(0.5 if overlay else 1.0) if opacity is None else opacity,
            visible=visible,
            channel_axes=finest.axes[:-3],
            dear=volume.cost(0) > 0,
        )

    @property
    def channels(self) -> int:
        """How many channels there are, all channel axes together; 1 without any."""
        count = 1
        for n in self.shape[:-3]:
            count *= n
        return count

    @property
    def extent_nm(self) -> tuple[float, float, float]:
        """Size of the whole volume, z, y, x, nm."""
        return _three([n * v for n, v in zip(self.shape[-3:], self.voxel_size_nm, strict=True)])

    @property
    def centre_nm(self) -> tuple[float, float, float]:
        """Middle of the whole volume, z, y, x, nm."""
        return _three([c + e / 2 for c, e in zip(self.corner_nm, self.extent_nm, strict=True)])


def scheme_of(url: str) -> str:
    """The Neuroglancer scheme that reads `url`, by its last segment ("zarr", "zarr2" or "zarr3")."""
    word = url.rstrip("/").rpartition("/")[2]
    if not url.startswith(("http://", "https://")) or word not in SCHEMES:
        raise ParameterError(
            f"layer address {url!r}: expected http://…/NAME/FORMAT with FORMAT one of {', '.join(SCHEMES)}"
        )
    return SCHEMES[word]


def source_url(url: str) -> str:
    """`url` with the scheme named, so that Neuroglancer asks for the files of that format alone."""
    return f"{url.rstrip('/')}/|{scheme_of(url)}:"


def shown_range(spec: LayerSpec) -> tuple[float, float]:
    """The values at the ends of the layer's contrast."""
    return spec.display_range if spec.display_range is not None else dtype_range(spec.dtype)


def dtype_range(dtype: np.dtype[Any] | str) -> tuple[float, float]:
    """All that an integer dtype holds; 0 to 1 for the others."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        return (0.0, 1.0)
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def layer(spec: LayerSpec) -> neuroglancer.Layer:
    """The layer that suits the spec's kind and colour."""
    if spec.kind == "labels":
        return labels_layer(spec)
    if spec.kind == "mask":
        return mask_layer(spec)
    return raw_layer(spec) if spec.color is None else prediction_layer(spec)


def raw_layer(spec: LayerSpec) -> neuroglancer.ImageLayer:
    """Grey between the ends of the display range."""
    return _image_layer(spec, raw_shader(_typed_range(spec), spec.channels))


def prediction_layer(spec: LayerSpec) -> neuroglancer.ImageLayer:
    """One colour (the first of the palette unless given), the clearer the lower the value."""
    color = spec.color or PALETTE[0]
    return _image_layer(spec, prediction_shader_for(_typed_range(spec), color, spec.channels))


def mask_layer(spec: LayerSpec) -> neuroglancer.ImageLayer:
    """One colour where the value is not 0, clear elsewhere."""
    return _image_layer(spec, mask_shader(spec.color or PALETTE[0], spec.channels))


def labels_layer(spec: LayerSpec) -> neuroglancer.SegmentationLayer:
    """A colour for each id; 0 is clear. A channel axis becomes a slider of the layer."""
    import neuroglancer

    return neuroglancer.SegmentationLayer(source=source_url(spec.url), selected_alpha=spec.opacity)


def _image_layer(spec: LayerSpec, shader: str) -> neuroglancer.ImageLayer:
    import neuroglancer

    source = neuroglancer.LayerDataSource(url=source_url(spec.url))
    if spec.channel_axes:
        source.transform = _channel_transform(spec)
    made = neuroglancer.ImageLayer(source=source, shader=spec.shader or shader, opacity=spec.opacity)
    if spec.blend != "default":
        made.blend = spec.blend
    return made


def _channel_transform(spec: LayerSpec) -> neuroglancer.CoordinateSpaceTransform:
    """Channel axes renamed from ``c'`` (a slider of the layer) to ``c^`` (all at hand in the shader), z, y, x as is.

    Neuroglancer puts the centre of channel 0 at 0, as on every OME axis, and wants ``c^`` to begin at 0.
    """
    import neuroglancer

    count = len(spec.channel_axes)

    def space(suffix: str) -> neuroglancer.CoordinateSpace:
        return neuroglancer.CoordinateSpace(
            names=[axis + suffix for axis in spec.channel_axes] + ["z", "y", "x"],
            units=[""] * count + ["nm"] * 3,
            scales=[1.0] * count + list(spec.voxel_size_nm),
        )

    matrix = np.eye(count + 3, count + 4)
    matrix[:count, -1] = 0.5
    return neuroglancer.CoordinateSpaceTransform(
        output_dimensions=space("^"), input_dimensions=space("'"), matrix=matrix
    )


def _typed_range(spec: LayerSpec) -> tuple[float, float]:
    low, high = shown_range(spec)
    if np.dtype(spec.dtype).kind not in "iu":
        return (float(low), float(high))
    # Neuroglancer refuses ends that the dtype does not hold.
    least, most = (int(v) for v in dtype_range(spec.dtype))
    return (max(least, math.floor(low)), min(most, math.ceil(high)))


def show(
    viewer: neuroglancer.Viewer, layers: Sequence[LayerSpec], *, position_nm: Sequence[float] | None = None
) -> None:
    """Show `layers`, and nothing else, in four panels with the whole of the first volume in view.

    The view's dimensions are voxels of the first layer (the raw volume). Layers are drawn in their order, the first
    lowest.

    Parameters
    ----------
    position_nm
        z, y, x of the point where the three cross-sections meet; the first volume's middle when left out.

    Raises
    ------
    ParameterError
        No layers, two of one name, or a position that is not three numbers.
    """
    import neuroglancer

    if not layers:
        raise ParameterError("nothing to show: give at least one layer")
    names = [spec.name for spec in layers]
    if len(set(names)) != len(names):
        raise ParameterError(f"layer names must differ, found {', '.join(names)}")
    first = layers[0]
    position = first.centre_nm if position_nm is None else _three(position_nm)
    size = first.voxel_size_nm
    with viewer.txn() as state:
        state.dimensions = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units="nm", scales=list(size[::-1]))
        state.layers.clear()
        for spec in layers:
            state.layers.append(name=spec.name, layer=layer(spec), visible=spec.visible)
        state.position = [p / v for p, v in zip(position[::-1], size[::-1], strict=True)]
        scale = fitting_scale(first)
        state.cross_section_scale = min(scale, NEAR) if any(spec.dear for spec in layers) else scale
        state.projection_scale = 1.5 * max(first.extent_nm) / min(size)
        state.layout = "4panel"


NEAR = 0.5
"""Voxels a screen pixel at which a view of dear layers opens at the most."""


def fitting_scale(spec: LayerSpec) -> float:
    """Neuroglancer's cross-section scale at which each section of the whole volume fits its panel.

    The scale is in the smallest of the voxel sizes a screen pixel. Panels: x right and y down; x, z; z, y.
    """
    z, y, x = spec.extent_nm
    width, height = PANEL_PX
    return max(x / width, z / width, y / height, z / height) / min(spec.voxel_size_nm)


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) != 3:
        raise ParameterError(f"expected three numbers (z, y, x), found {list(values)}")
    z, y, x = (float(v) for v in values)
    return (z, y, x)
