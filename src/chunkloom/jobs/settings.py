"""What the person last chose for jobs (queue, charge group, cores …), kept in a file in chunkloom's home."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from chunkloom.errors import ParameterError, WriteError
from chunkloom.jobs.site import SiteProfile, load_yaml, parse_walltime, site_profile
from chunkloom.settings import home

FILE = "server_config.yaml"


@dataclass
class LauncherSettings:
    """Values that commands and the dashboard use where they are given none. None and "": the site's."""

    queue: str | None = None
    charge_group: str = ""
    walltime: str | None = None
    cycle_gpu_queues: bool = True
    nb_cores_master: int = 4
    nb_cores_worker: int = 12
    nb_workers: int = 14

    @classmethod
    def from_dict(cls, data: Any, source: str = FILE) -> LauncherSettings:
        """Parse; unknown members are warned of and dropped.

        Raises
        ------
        ParameterError
            A member that is not what it should be.
        """
        if data is None:
            return cls()
        if not isinstance(data, dict):
            raise ParameterError(f"{source}: expected members such as 'queue: gpu', found {data!r}")
        known = {f.name for f in fields(cls)}
        unknown = sorted(str(member) for member in data if member not in known)
        if unknown:
            warnings.warn(f"{source}: unknown settings are not used: {', '.join(unknown)}", stacklevel=2)
        values = {member: value for member, value in data.items() if member in known}
        for member, value in values.items():
            if member.startswith("nb_"):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ParameterError(f"{source}: {member} {value!r}: expected a whole number of at least 1")
            elif member == "cycle_gpu_queues":
                if not isinstance(value, bool):
                    raise ParameterError(f"{source}: {member} {value!r}: expected true or false")
            elif member == "walltime":
                values[member] = parse_walltime(value, source)
            elif not (value is None or isinstance(value, str)):
                raise ParameterError(f"{source}: {member} {value!r}: expected a word")
        return cls(**{**values, "charge_group": values.get("charge_group") or ""})

    @classmethod
    def load(cls) -> LauncherSettings:
        """What is kept in our home, else in the older one, else the defaults."""
        for folder in (home(), Path.home() / ".cellmap_flow"):
            try:
                text = (folder / FILE).read_text()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise ParameterError(f"{folder / FILE}: cannot be read: {error}") from error
            return cls.from_dict(load_yaml(text, str(folder / FILE)), str(folder / FILE))
        return cls()

    def save(self) -> Path:
        """Write the file in our home, whole or not at all."""
        import yaml

        target = home() / FILE
        temporary = ""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{FILE}.", dir=target.parent)
            with os.fdopen(handle, "w") as stream:
                yaml.safe_dump(asdict(self), stream, sort_keys=False)
            os.replace(temporary, target)
        except OSError as error:
            if temporary:
                Path(temporary).unlink(missing_ok=True)
            raise WriteError(f"{target}: settings cannot be written: {error.strerror}") from error
        return target

    def over(self, site: SiteProfile | None = None) -> dict[str, Any]:
        """Queue, charge group and walltime as members of a `JobSpec`: these settings', else the site's."""
        site = site or site_profile()
        return {
            "queue": self.queue or site.default_queue,
            "charge_group": self.charge_group or site.charge_group,
            "walltime": self.walltime or site.walltime,
        }


_lock = threading.Lock()
_settings: dict[Path, LauncherSettings] = {}


def launcher_settings() -> LauncherSettings:
    """The process's settings: read from the file the first time they are asked for, then one object for all."""
    with _lock:
        if home() not in _settings:
            _settings[home()] = LauncherSettings.load()
        return _settings[home()]
