"""TIFF stacks, OME-TIFF and ImageJ files with tifffile, read segment by segment; folders of one-plane files.

Source for sizes: OME-XML `PhysicalSizeX/Y/Z`, ImageJ's `spacing`, TIFF `XResolution` with its unit.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.errors import FormatError, MissingExtraError
from chunkloom.io import parse, units
from chunkloom.io.discover import Level, Pyramid, make_level, make_pyramid
from chunkloom.io.files import ByteSource, SourceFile, open_source, reading
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.paths import Location
from chunkloom.io.placement import SPACE, Found, Triple
from chunkloom.io.store import Store

_AXES = {"Z": "z", "Y": "y", "X": "x", "C": "c", "S": "s", "T": "t"}
# Rows of narrow strips that are read together.
_ROWS = 256


@dataclass(frozen=True)
class TiffPages:
    """What the reader of one level needs: its pages in order, and how many axes of the level lie between pages."""

    sources: tuple[ByteSource, ...]
    pages: Sequence[Any]
    keyframe: Any
    leading: tuple[int, ...]
    lock: threading.Lock
    offset: int | None = None


def find(location: Location) -> Pyramid:
    """The volume in a TIFF file.

    Raises
    ------
    VolumeNotFoundError, FormatError, AccessError, ChunkReadError
        As `discover.find_pyramid`.
    """
    with reading(location.base, "TIFF"):
        return _find(location)


def _find(location: Location) -> Pyramid:
    source = open_source(location)
    file = _open(location, source)
    series = file.series
    if not series:
        raise FormatError(f"{location.base} holds no image")
    warnings = []
    if len(series) > 1:
        warnings.append(f"{location.base} holds {len(series)} images: the first is read")
    found, axes = _sizes(file, series[0], location.base)
    levels = []
    for number, level in enumerate(series[0].levels):
        layout = _layout(level, source, location.base)
        own = _level_placement(found, axes, series[0], level, number)
        levels.append(make_level(Store(location), layout, own, None, (source.state,), path=location.base))
    return make_pyramid(levels, warnings)


def find_stack(location: Location) -> Pyramid | None:
    """A folder of TIFF files of one plane each, in the order of the numbers in their names; None where it is none."""
    try:
        names = [name for name in os.listdir(location.base) if name.lower().endswith((".tif", ".tiff"))]
    except OSError:
        return None
    if not names:
        return None
    names.sort(
        key=lambda name: [
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part
        ]
    )
    with reading(location.base, "TIFF"):
        return make_pyramid([_stack_level(location, names)])


def _stack_level(location: Location, names: list[str]) -> Level:
    first = location.child(names[0])
    source = open_source(first)
    file = _open(first, source)
    if len(file.pages) != 1 or file.pages[0].axes != "YX":
        raise FormatError(
            f"{location.base} is a folder of TIFF files of {len(file.pages)} pages with axes {file.pages[0].axes}: "
            f"expected one plane each; name one file, as in {first.base}"
        )
    page = file.pages[0]
    found, _ = _sizes(file, file.series[0], first.base)
    pages = _StackPages(location, names, page)
    layout = _paged_layout((len(names), *page.shape), "ZYX", page, pages, (), first.base, threading.Lock())
    states = (source.state, str(len(names)), f"{os.stat(location.base).st_mtime_ns}")
    return make_level(Store(location), layout, Found(SPACE, found.voxel_size_nm, None, found.warnings), None, states)


class _StackPages:
    """The pages of a folder of files, each opened when it is asked for."""

    def __init__(self, location: Location, names: list[str], keyframe: Any) -> None:
        self._location = location
        self._names = names
        self._keyframe = keyframe

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: int) -> Any:
        location = self._location.child(self._names[number])
        source = open_source(location)
        page = _open(location, source).pages[0]
        if page.shape != self._keyframe.shape or page.dtype != self._keyframe.dtype:
            raise FormatError(
                f"{location.base} holds {page.shape} {page.dtype}: expected {self._keyframe.shape} "
                f"{self._keyframe.dtype}, as {self._names[0]}"
            )
        page.chunkloom_source = source
        return page


def _open(location: Location, source: ByteSource) -> Any:
    try:
        import tifffile
    except ImportError as error:
        raise MissingExtraError('reading TIFF needs tifffile: pip install "tifffile>=2024.1"') from error
    with reading(location.base, "TIFF"):
        return tifffile.TiffFile(SourceFile(source, location.base).binary(), name=os.path.basename(location.base))


def _layout(level: Any, source: ByteSource, where: str) -> ArrayLayout:
    keyframe = level.keyframe
    leading_axes = level.axes[: len(level.axes) - len(keyframe.axes)]
    leading = tuple(int(n) for n in level.shape[: len(leading_axes)])
    shape = tuple(int(n) for n in level.shape)
    if tuple(level.shape[len(leading) :]) != tuple(keyframe.shape) or not level.axes.endswith(keyframe.axes):
        raise FormatError(
            f"{where}: an image of axes {level.axes}, shape {shape}, made of pages of axes {keyframe.axes}, shape "
            f"{tuple(keyframe.shape)}, is not known: save it as a plain stack of pages"
        )
    lock = threading.Lock()
    offset = level.dataoffset
    return _paged_layout(shape, level.axes, keyframe, level, (source,), where, lock, offset)


def _paged_layout(
    shape: tuple[int, ...],
    letters: str,
    keyframe: Any,
    pages: Any,
    sources: tuple[ByteSource, ...],
    where: str,
    lock: threading.Lock,
    offset: int | None = None,
) -> ArrayLayout:
    if keyframe.dtype is None:
        raise FormatError(f"{where}: samples of {keyframe.bitspersample} bits are not known")
    byteorder = keyframe.parent.byteorder
    stored = parse.number_type(keyframe.dtype.str, f"{where}: sample type").newbyteorder(byteorder)
    leading = shape[: len(letters) - len(keyframe.axes)]
    names = _axis_names(letters)
    rows = keyframe.tilelength if keyframe.is_tiled else max(1, min(keyframe.rowsperstrip, keyframe.imagelength))
    parse.check_chunk_size((rows, keyframe.tilewidth or keyframe.imagewidth), stored, where)
    sizes = {
        "y": rows if keyframe.is_tiled else min(keyframe.imagelength, rows * max(1, _ROWS // rows)),
        "x": keyframe.tilewidth if keyframe.is_tiled else keyframe.imagewidth,
    }
    within = dict.fromkeys(keyframe.axes)
    chunk = tuple(
        min(n, sizes.get(name, n if letter in within and letter == "S" else 1)) or 1
        for name, letter, n in zip(names, letters, shape, strict=True)
    )
    return ArrayLayout(
        format="tiff",
        shape=shape,
        chunk_shape=chunk,
        dtype=stored.newbyteorder("="),
        stored_dtype=stored,
        names=names,
        codec=keyframe.compression.name.lower() if keyframe.compression != 1 else "none",
        fill=stored.newbyteorder("=").type(0),
        reader="tiff",
        details=TiffPages(sources, pages, keyframe, leading, lock, offset),
    )


def _axis_names(letters: str) -> tuple[str, ...]:
    """Names of tifffile's axis letters. A stack that says neither Z nor anything else of its planes is along z."""
    names = [_AXES.get(letter, letter.lower()) for letter in letters]
    if "z" not in names:
        for other in ("i", "q", "t", "r"):
            if other in names:
                names[names.index(other)] = "z"
                break
    return tuple(names)


def _level_placement(found: Found, axes: tuple[str, ...], base: Any, level: Any, number: int) -> Found:
    """Level `number` of a pyramid begins where the finest does; its voxels are as much larger as it has fewer."""
    names = _axis_names(level.axes)
    if number == 0:
        return Found(names, found.voxel_size_nm, None, found.warnings)
    base_shape = dict(zip(axes, base.shape, strict=True))
    shape = dict(zip(names, level.shape, strict=True))
    z, y, x = found.voxel_size_nm or (1.0, 1.0, 1.0)
    factors = [float(max(1, round(base_shape.get(axis, 1) / max(1, shape.get(axis, 1))))) for axis in SPACE]
    return Found(names, (z * factors[0], y * factors[1], x * factors[2]), None, found.warnings)


def _sizes(file: Any, series: Any, where: str) -> tuple[Found, tuple[str, ...]]:
    """Voxel size from OME-XML, ImageJ's description, or resolution tags."""
    axes = _axis_names(series.axes)
    if file.is_ome and file.ome_metadata:
        return _ome_sizes(file.ome_metadata, where), axes
    warnings: list[str] = []
    page = series.keyframe
    description = file.imagej_metadata if file.is_imagej else None
    unit = description.get("unit") if isinstance(description, dict) else None
    factor = units.nm_per(str(unit)) if unit else None
    y, x = _resolution(page, "YResolution"), _resolution(page, "XResolution")
    if factor is None:
        if unit and str(unit).lower() not in ("pixel", "pixels"):
            warnings.append(f"{where} has the unknown unit {unit!r}")
        # Inches are what programs write that know no size.
        factor = {3: 1e7, 4: 1e6, 5: 1e3}.get(int(getattr(page, "resolutionunit", 1) or 1))
    if factor is None or x is None or y is None:
        return Found(warnings=tuple(warnings)), axes
    spacing = description.get("spacing") if isinstance(description, dict) else None
    if isinstance(spacing, int | float) and spacing > 0:
        z = float(spacing) * factor
    else:
        z = y * factor
        warnings.append(f"{where} gives no distance of planes: taken as the height of a pixel")
    size: Triple = (_tidy(z), _tidy(y * factor), _tidy(x * factor))
    return Found(None, size, None, tuple(warnings)), axes


def _tidy(value: float) -> float:
    """A size from a ratio of whole numbers, without the digits that the ratio makes up."""
    return float(f"{value:.9g}")


def _resolution(page: Any, name: str) -> float | None:
    """Units per pixel, from a tag of pixels per unit."""
    tag = page.tags.get(name)
    value = tag.value if tag is not None else None
    if isinstance(value, tuple) and len(value) == 2 and value[0] and value[1]:
        return float(value[1]) / float(value[0])
    return None


def _ome_sizes(text: str, where: str) -> Found:
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise FormatError(f"{where}: its OME-XML is broken: {error}") from error
    pixels = next((node for node in root.iter() if node.tag.rsplit("}", 1)[-1] == "Pixels"), None)
    if pixels is None:
        return Found()
    warnings: list[str] = []
    sizes: list[float | None] = []
    for axis in SPACE:
        value = pixels.get(f"PhysicalSize{axis.upper()}")
        unit = pixels.get(f"PhysicalSize{axis.upper()}Unit", "µm")
        if value is None:
            sizes.append(None)
            continue
        try:
            number = parse.voxel_sizes([float(value)], f"{where}: PhysicalSize{axis.upper()}")[0]
        except ValueError as error:
            raise FormatError(f"{where}: PhysicalSize{axis.upper()} is {value!r}: expected a size") from error
        converted = units.to_nm(number, unit)
        if converted is None:
            warnings.append(f"axis {axis} has the unknown unit {unit!r}: nanometer assumed")
        sizes.append(number if converted is None else converted)
    z, y, x = sizes
    if y is None or x is None:
        return Found(warnings=tuple(warnings))
    if z is None:
        warnings.append(f"{where} gives no distance of planes: taken as the height of a pixel")
    return Found(None, (z or y, y, x), None, tuple(warnings))
