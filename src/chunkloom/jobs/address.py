"""Where a job's server is, read from the other side of `ready`: its ready file, else the marker in its output."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from chunkloom.jobs.ready import MARKER, MARKER_END
from chunkloom.jobs.spec import Job, JobSpec

# Both names: the server may be an older one.
READY_VARIABLES = ("CHUNKLOOM_READY_FILE", "CELLMAP_FLOW_READY_FILE")


@dataclass(frozen=True)
class ReadyFile:
    """The file of one submission, new for each."""

    path: Path

    @classmethod
    def of(cls, spec: JobSpec) -> ReadyFile:
        """The file in the log folder that belongs to this submission."""
        return cls(spec.log_dir / f"{spec.stem}_{spec.token}.ready")

    def named_in(self, spec: JobSpec) -> JobSpec:
        """The same job, told where to write the file."""
        return replace(spec, env={**spec.env, **dict.fromkeys(READY_VARIABLES, str(self.path))})

    def read(self, job: Job) -> str | None:
        """The address that the job's server wrote, or None: no file yet, half a file, or another job's."""
        try:
            data = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(data, dict):
            return None
        url, named = data.get("url"), data.get("job_id")
        if job.scheduler.name != "local" and named is not None and str(named) != job.id:
            return None
        return url if isinstance(url, str) and url else None

    def remove(self) -> None:
        """Delete it, if it is there."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def last_marker(output: str) -> str | None:
    """The address between the last complete pair of markers: a job that was queued again prints a second one."""
    end = output.rfind(MARKER_END)
    while end >= 0:
        start = output.rfind(MARKER, 0, end)
        if start < 0:
            return None
        url = output[start + len(MARKER) : end]
        if url and not any(letter.isspace() for letter in url):
            return url
        end = output.rfind(MARKER_END, 0, start)
    return None
