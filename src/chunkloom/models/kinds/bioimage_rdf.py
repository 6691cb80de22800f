"""Descriptions of bioimage.io models, formats 0.4 and 0.5, as far as running one needs them.

Source: the bioimage.io model specification, https://bioimage-io.github.io/spec-bioimage-io.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.models.kinds.base import Array

FORMATS = ("onnx", "torchscript")


@dataclass(frozen=True)
class Extent:
    """How long an input is along one axis: `minimum`, and more in steps of `step` (0: fixed)."""

    minimum: int
    step: int

    def nearest(self, wanted: int) -> int:
        if not self.step:
            return self.minimum
        return self.minimum + self.step * max(0, round((wanted - self.minimum) / self.step))


@dataclass(frozen=True)
class Produced:
    """How long an output is: ``scale · input + offset``, of which `halo` is cut off on each side."""

    scale: float
    offset: float
    halo: int


@dataclass(frozen=True)
class Tile:
    """The tile of one forward, z, y, x: what is read, what is kept of the output, and what is cut off before it."""

    input_shape: tuple[int, int, int]
    output_shape: tuple[int, int, int]
    halo: tuple[int, int, int]
    factor: tuple[float, float, float]


@dataclass(frozen=True)
class Description:
    """A parsed description. Axes are one letter each: b, c, z, y, x."""

    name: str
    path: Path
    input_axes: str
    output_axes: str
    extents: dict[str, Extent]
    produced: dict[str, Produced]
    input_channels: int
    output_channels: int
    channel_names: tuple[str, ...]
    preprocessing: tuple[tuple[str, dict[str, Any]], ...]
    postprocessing: tuple[tuple[str, dict[str, Any]], ...]
    sources: dict[str, str]
    test_input: Path | None
    test_output: Path | None

    def weights(self, wanted: str | None) -> tuple[str, Path]:
        """The weight format to run, and its file."""
        formats = FORMATS if wanted is None else (wanted,)
        chosen = next((f for f in formats if f in self.sources and f in FORMATS), None)
        if chosen is None:
            raise ModelError(
                f"{self.path}: its weights are {', '.join(self.sources) or 'none'}: expected "
                f"{' or '.join(FORMATS if wanted is None else [wanted])}"
            )
        return chosen, _inside(self.path, self.sources[chosen])

    def tile(self, edge: int | None) -> Tile:
        """The tile whose free axes are nearest to `edge`, or to 128 for three axes and 512 for two."""
        spatial = [a for a in "zyx" if a in self.input_axes]
        wanted = edge or (128 if len(spatial) == 3 else 512)
        read, kept, halo, factor = [], [], [], []
        for axis in "zyx":
            if axis not in spatial:
                read.append(1)
                kept.append(1)
                halo.append(0)
                factor.append(1.0)
                continue
            n = self.extents[axis].nearest(wanted)
            made = self.produced[axis]
            out = round(made.scale * n + made.offset)
            if out - 2 * made.halo < 1:
                raise ModelError(f"{self.path}: a tile of {n} voxels along {axis} leaves nothing within its halo")
            read.append(n)
            kept.append(out - 2 * made.halo)
            halo.append(made.halo)
            factor.append(1 / made.scale)
        z, y, x = range(3)
        return Tile(
            (read[z], read[y], read[x]),
            (kept[z], kept[y], kept[x]),
            (halo[z], halo[y], halo[x]),
            (factor[z], factor[y], factor[x]),
        )

    def arrange(self, block: Array) -> Array:
        """(c, z, y, x) as the model's input axes."""
        return _place(block, self.input_axes)

    def channels_first(self, out: Array) -> Array:
        """The model's output as (c, z, y, x)."""
        if out.ndim != len(self.output_axes):
            raise ModelError(
                f"{self.path}: its output has shape {out.shape}, the description says {self.output_axes!r}"
            )
        axes = self.output_axes
        for missing in (a for a in "czyx" if a not in axes):
            out, axes = out[..., np.newaxis], axes + missing
        if "b" in axes:
            out, axes = np.take(out, 0, axis=axes.index("b")), axes.replace("b", "")
        return out.transpose([axes.index(a) for a in "czyx"])


def _place(block: Array, axes: str) -> Array:
    have = "czyx"
    for axis in "czyx":
        if axis not in axes:
            if block.shape[have.index(axis)] != 1:
                raise ModelError(f"the model has no axis {axis!r}, the data has {block.shape[have.index(axis)]} there")
            block, have = np.take(block, 0, axis=have.index(axis)), have.replace(axis, "")
    block = block.transpose([have.index(a) for a in axes if a != "b"])
    if "b" in axes:
        block = np.expand_dims(block, axes.index("b"))
    return np.ascontiguousarray(block, np.float32)


def read_description(path: Path) -> Description:
    """Parse a description. Raises `ModelError` naming the file, the member and what is expected."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    version = str(data.get("format_version")) if isinstance(data, dict) else "?"
    if not isinstance(data, dict) or version.split(".")[:2] not in (["0", "4"], ["0", "5"]):
        raise ModelError(f'{path}: member "format_version" is {version}: expected 0.4 or 0.5')
    for member in ("inputs", "outputs"):
        if not isinstance(data.get(member), list) or len(data[member]) != 1:
            n = len(data[member]) if isinstance(data.get(member), list) else "no list"
            raise ModelError(f'{path}: member "{member}" holds {n}: only models of one input and one output run here')
    try:
        return _of_04(data, path) if version.startswith("0.4") else _of_05(data, path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelError(f"{path}: does not hold to the format {version}: {type(error).__name__}: {error}") from error


def _of_05(data: dict[str, Any], path: Path) -> Description:
    given, made = data["inputs"][0], data["outputs"][0]
    letters = {"batch": "b", "channel": "c"}
    read = {letters.get(a["type"], a.get("id")): a for a in given["axes"]}
    write = {letters.get(a["type"], a.get("id")): a for a in made["axes"]}
    _known(read, path)
    _known(write, path)
    extents, produced = {}, {}
    for axis in "zyx":
        if axis in read:
            size = read[axis]["size"]
            if not isinstance(size, int) and "min" not in size:
                raise ModelError(f"{path}: the input's size along {axis} refers to another tensor: only one is read")
            extents[axis] = Extent(size, 0) if isinstance(size, int) else Extent(int(size["min"]), int(size["step"]))
        if axis in write:
            size, halo = write[axis]["size"], int(write[axis].get("halo") or 0)
            if isinstance(size, int):
                produced[axis] = Produced(_scale_of(read[axis], write[axis]), 0.0, halo)
                offset = size - produced[axis].scale * extents[axis].minimum
                produced[axis] = Produced(produced[axis].scale, offset, halo)
            else:
                produced[axis] = Produced(_scale_of(read[axis], write[axis]), float(size.get("offset") or 0), halo)
    names = tuple(str(n) for n in (write.get("c") or {}).get("channel_names") or ())
    return Description(
        name=str(data["name"]),
        path=path,
        input_axes="".join(read),
        output_axes="".join(write),
        extents=extents,
        produced=produced,
        input_channels=len((read.get("c") or {}).get("channel_names") or [""]),
        output_channels=max(1, len(names)),
        channel_names=names,
        preprocessing=_steps(given.get("preprocessing"), "id"),
        postprocessing=_steps(made.get("postprocessing"), "id"),
        sources={k: str(v["source"]) for k, v in data["weights"].items() if v},
        test_input=_test(path, given.get("test_tensor")),
        test_output=_test(path, made.get("test_tensor")),
    )


def _scale_of(read: dict[str, Any], write: dict[str, Any]) -> float:
    """Output voxels per input voxel: the sizes of a voxel are the axes' `scale`."""
    return float(read.get("scale") or 1) / float(write.get("scale") or 1)


def _of_04(data: dict[str, Any], path: Path) -> Description:
    given, made = data["inputs"][0], data["outputs"][0]
    read, write = given["axes"], made["axes"]
    _known(read, path)
    _known(write, path)
    extents, produced = {}, {}
    channels = 1
    fixed = isinstance(given["shape"], list)
    for i, axis in enumerate(read):
        size = given["shape"][i] if fixed else given["shape"]["min"][i]
        if axis == "c":
            channels = int(size)
        elif axis in "zyx":
            extents[axis] = Extent(int(size), 0 if fixed else int(given["shape"]["step"][i]))
    out_channels, halo = 1, made.get("halo") or [0] * len(write)
    for i, axis in enumerate(write):
        if isinstance(made["shape"], list):
            size = int(made["shape"][i])
            if axis == "c":
                out_channels = size
            elif axis in "zyx":
                scale = 1.0
                produced[axis] = Produced(scale, size - scale * extents[axis].minimum, int(halo[i]))
            continue
        scale, offset = made["shape"]["scale"][i], made["shape"]["offset"][i]
        if axis == "c":
            out_channels = round((scale or 0) * channels + 2 * offset)
        elif axis in "zyx":
            produced[axis] = Produced(float(scale), 2.0 * float(offset), int(halo[i]))
    return Description(
        name=str(data["name"]),
        path=path,
        input_axes=read,
        output_axes=write,
        extents=extents,
        produced=produced,
        input_channels=channels,
        output_channels=out_channels,
        channel_names=(),
        preprocessing=_steps(given.get("preprocessing"), "name"),
        postprocessing=_steps(made.get("postprocessing"), "name"),
        sources={k: str(v["source"]) for k, v in data["weights"].items() if v},
        test_input=_test(path, (data.get("test_inputs") or [None])[0]),
        test_output=_test(path, (data.get("test_outputs") or [None])[0]),
    )


def _known(axes: Any, path: Path) -> None:
    strange = [str(a) for a in axes if a not in tuple("bczyx")]
    if strange:
        raise ModelError(f"{path}: has an axis {strange[0]!r}: expected of batch, channel, z, y, x")


def _steps(listed: Sequence[dict[str, Any]] | None, key: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple((str(step[key]), dict(step.get("kwargs") or {})) for step in listed or ())


def _test(path: Path, source: Any) -> Path | None:
    if isinstance(source, dict):
        source = source.get("source")
    return None if source is None else path.parent / Path(str(source)).name


def _inside(path: Path, source: str) -> Path:
    """A file of the package: never one elsewhere."""
    found = (path.parent / source).resolve()
    if not found.is_relative_to(path.parent.resolve()) or not found.is_file():
        raise ModelError(f"{path}: names the weights {source!r}: expected a file within the package")
    return found
