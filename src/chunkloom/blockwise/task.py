"""The task file: a session's YAML with what a whole-volume run needs besides. Opens no data and loads no model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from chunkloom.config.document import Where
from chunkloom.config.yaml import Config, load_config
from chunkloom.errors import ConfigError, nearest
from chunkloom.geometry import Roi

Fit = Literal["overhang", "shrink", "valid"]
FITS = ("overhang", "shrink", "valid")
FORMATS = ("zarr2", "zarr3")
# One output: its name, and the channel it is, several of them, or all.
Selected = tuple[str, int | tuple[int, ...] | None]


@dataclass(frozen=True)
class BlockwiseTask:
    """A task file, checked.

    Attributes
    ----------
    path
        The file.
    config
        The session in it: data, models, chain, queue.
    output_path
        Folder of the outputs; each is a group `<output name>` with the array `s0`.
    workers, cpu_workers
        How many workers, and the cores of each.
    progress_dir
        Where markers of finished blocks are kept.
    track_progress
        Go on where an earlier run stopped.
    create
        Make the outputs; False: they are there.
    boxes
        Regions in nm, z, y, x. None: everything.
    separate
        The output is the one box, and no more.
    block_size
        Voxels z, y, x of the output. Default: the model's.
    output_channels
        As written: None, names, or a mapping of names to channels.
    fit
        What becomes of blocks that reach out of a region: see `plan.fitted`.
    """

    path: Path
    config: Config
    output_path: Path
    task_name: str
    workers: int
    cpu_workers: int | None = None
    tmp_dir: Path | None = None
    track_progress: bool = True
    create: bool = True
    boxes: tuple[Roi, ...] = ()
    separate: bool = False
    block_size: tuple[int, int, int] | None = None
    output_channels: Any = None
    fit: Fit = "overhang"
    format: str = "zarr2"

    @property
    def stem(self) -> str:
        """The task's name as a part of file names and of daisy's ids."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", self.task_name)

    @property
    def progress_dir(self) -> Path:
        folder = self.tmp_dir if self.tmp_dir is not None else self.output_path.parent
        return folder / f"tmp_flow_daisy_progress_{self.stem}"


def load_task(path: str | os.PathLike[str]) -> BlockwiseTask:
    """Read a task file.

    Raises
    ------
    ConfigError
        Naming the file, the line, the key, what was found and what is expected.
    """
    config = load_config(path)
    given = config.blockwise

    def wrong(key: str, expected: str, *more: str | int) -> ConfigError:
        where: Where = (key, *more) if key in given else ()
        found = f"found {given[key]!r}" if key in given else f"{key} is missing"
        return config.error(where, f"{found}: expected {expected}")

    def text(key: str, expected: str) -> str:
        value = given.get(key)
        if not isinstance(value, str) or not value.strip():
            raise wrong(key, expected)
        return value

    def count(key: str, default: int | None) -> Any:
        value = given.get(key, default)
        if value is default and key not in given and default is not None:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise wrong(key, "a whole number of at least 1")
        return value

    def switch(key: str, default: bool) -> bool:
        value = given.get(key, default)
        if not isinstance(value, bool):
            raise wrong(key, "true or false")
        return value

    output_path = text("output_path", "the path of the outputs, with .zarr in it")
    if ".zarr" not in output_path:
        raise wrong("output_path", "a path with .zarr in it")
    if "://" in output_path:
        raise wrong("output_path", "a folder that all workers see")
    name = text("task_name", "a name for the run")
    fit, written = given.get("fit", "overhang"), given.get("format", "zarr2")
    for key, value, known in (("fit", fit, FITS), ("format", written, FORMATS)):
        if value not in known:
            raise wrong(key, nearest(str(value), known))
    for key in ("process_only", "cross_channels"):
        if given.get(key):
            raise config.error((key,), "is not supported yet: choose channels with output_channels")
    if len(config.models) != 1:
        raise config.error(("models",), f"found {len(config.models)} models: expected one")
    boxes = _boxes(config, given.get("bounding_boxes"))
    separate = switch("separate_bounding_boxes_zarrs", False)
    if separate and len(boxes) != 1:
        raise wrong("separate_bounding_boxes_zarrs", f"one box in bounding_boxes, not {len(boxes)}: one file a box")
    tmp_dir = given.get("tmp_dir")
    if tmp_dir is not None:
        tmp_dir = Path(text("tmp_dir", "a folder")).expanduser().absolute()
    return BlockwiseTask(
        path=Path(os.fspath(path)).absolute(),
        config=config,
        output_path=Path(output_path).expanduser().absolute(),
        task_name=name,
        workers=count("workers", None),
        cpu_workers=count("cpu_workers", None) if "cpu_workers" in given else None,
        tmp_dir=tmp_dir,
        track_progress=switch("track_progress", True),
        create=switch("create", True),
        boxes=boxes,
        separate=separate,
        block_size=_block(config, given.get("block_size")),
        output_channels=_channels(config, given.get("output_channels")),
        fit=fit,
        format=written,
    )


def _boxes(config: Config, given: Any) -> tuple[Roi, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise config.error(("bounding_boxes",), f"found {given!r}: expected a list of boxes")
    boxes = []
    for number, entry in enumerate(given):
        where: Where = ("bounding_boxes", number)
        if not isinstance(entry, Mapping):
            raise config.error(where, f"found {entry!r}: expected offset and shape, in nm")
        config.document.check_keys(where, entry, ["offset", "shape"])
        for key in ("offset", "shape"):
            values: Any = entry.get(key)
            numbers = isinstance(values, list) and len(values) == 3
            if not numbers or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
                raise config.error((*where, key), f"found {values!r}: expected three numbers of nm, z, y, x")
        if min(entry["shape"]) <= 0:
            raise config.error((*where, "shape"), f"found {entry['shape']}: expected numbers above 0")
        boxes.append(Roi(entry["offset"], entry["shape"]))
    return tuple(boxes)


def _block(config: Config, given: Any) -> tuple[int, int, int] | None:
    if given is None:
        return None
    values = [given] * 3 if isinstance(given, int) and not isinstance(given, bool) else given
    whole = isinstance(values, list) and len(values) == 3 and all(type(v) is int and v > 0 for v in values)
    if not whole:
        raise config.error(("block_size",), f"found {given!r}: expected voxels z, y, x, above 0")
    return (values[0], values[1], values[2])


def _channels(config: Config, given: Any) -> tuple[Any, ...] | None:
    """The member as names, or as pairs of a name and channels."""
    if given is None:
        return None
    where: Where = ("output_channels",)
    if isinstance(given, Mapping):
        for name, index in given.items():
            listed = index if isinstance(index, list) else [index]
            if not listed or not all(type(one) is int and one >= 0 for one in listed):
                raise config.error((*where, name), f"found {index!r}: expected a channel's number, or a list of them")
        return tuple((str(n), tuple(i) if isinstance(i, list) and len(i) > 1 else _one(i)) for n, i in given.items())
    names: Any = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        raise config.error(where, f"found {given!r}: expected names of channels, or names with their numbers")
    if len(set(names)) != len(names):
        raise config.error(where, f"found {given!r}: a name is there twice")
    return tuple(names)


def _one(index: Any) -> int:
    return int(index[0] if isinstance(index, list) else index)
