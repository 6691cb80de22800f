"""What a network file says of itself: which programs, which state. Never who, where on disk, or on which machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import uuid
from typing import Any

FORMAT_VERSION = "8.0.2"
"""The release of BSB whose files these are."""


def chunkloom_version() -> str:
    try:
        return importlib.metadata.version("chunkloom")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def now() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def new_provenance() -> dict[str, Any]:
    """The provenance of a file that is being made."""
    return {
        "storage_id": str(uuid.uuid4()),
        "state_id": 0,
        "bsb_schema_version": 1,
        "created_at": now(),
        "bsb_core_version": FORMAT_VERSION,
        "engine_name": "chunkloom",
        "engine_version": chunkloom_version(),
        "plugins": {},
        "host": {"platform": platform.system(), "python_version": platform.python_version()},
        "mpi_size": 1,
    }
