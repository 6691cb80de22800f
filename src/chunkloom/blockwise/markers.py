"""What is known of a run on disk: a marker per finished block, a note per failed one, and what the run was.

A marker is made after its block's chunks are durable; it is named by the region of the world that the block writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkloom.engine.formats.base import number_text
from chunkloom.errors import ConflictError, WriteError
from chunkloom.geometry import Box, Grid

IDENTITY, STATUS = "task.json", "status.json"


def marker_name(grid: Grid, box: Box) -> str:
    """``<oz>_<oy>_<ox>-<sz>_<sy>_<sx>`` in nm, shortest decimals, of a box of a grid."""
    roi = grid.box_to_world(box)
    return "-".join("_".join(number_text(round(v, 6)) for v in part) for part in (roi.begin, roi.shape))


@dataclass(frozen=True)
class Progress:
    """The folder of a run's markers."""

    folder: Path

    def of(self, task_id: str) -> Progress:
        """The folder of one daisy task."""
        return Progress(self.folder / task_id)

    def begin(self, identity: Mapping[str, Any], *, resume: bool) -> None:
        """Make the folder, or go on with it.

        Raises
        ------
        ConflictError
            It belongs to another run; the message names what differs.
        """
        text = json.dumps(identity, indent=1, sort_keys=True)
        path = self.folder / IDENTITY
        try:
            if not resume:
                shutil.rmtree(self.folder, ignore_errors=True)
            elif path.exists():
                _refuse_another(path, json.loads(text))
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.failures, ignore_errors=True)
            self.failures.mkdir()
            _written(path, text)
        except ConflictError:
            raise
        except (OSError, ValueError) as error:
            raise WriteError(f"{path}: progress cannot be kept: {error}") from error

    @property
    def failures(self) -> Path:
        return self.folder / "failures"

    def tell(self, status: Mapping[str, Any]) -> None:
        """Keep how the run is doing, for whoever looks; a run does not fail over it."""
        with contextlib.suppress(OSError):
            _written(self.folder / STATUS, json.dumps(status))

    def done(self, name: str) -> bool:
        return (self.folder / name).exists()

    def mark(self, name: str) -> None:
        """The block is finished: call after its data are durable."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _durable(self.folder / name, b"")

    def names(self) -> set[str]:
        """Markers that are there."""
        try:
            return {entry.name for entry in os.scandir(self.folder)}
        except FileNotFoundError:
            return set()


def fail(failures: Path, name: str, traceback: str) -> None:
    """Keep the traceback of a block that failed."""
    failures.mkdir(parents=True, exist_ok=True)
    _written(failures / f"{name}.txt", traceback)


def failed(failures: Path) -> dict[str, str]:
    """Tracebacks of blocks that failed, the first first."""
    found = sorted(failures.glob("*.txt"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return {path.name.removesuffix(".txt"): path.read_text() for path in found}


def _refuse_another(path: Path, identity: Mapping[str, Any]) -> None:
    found = json.loads(path.read_text())
    differing = sorted(key for key in {*found, *identity} if found.get(key) != identity.get(key))
    if differing:
        told = "; ".join(f"{key} was {found.get(key)!r}, is {identity.get(key)!r}" for key in differing)
        raise ConflictError(
            f"{path.parent}: a run with another task is kept there ({told}): put the task back, give it another "
            "task_name and output_path, or delete that folder to compute everything again"
        )


def _written(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    os.replace(temporary, path)


def _durable(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
