"""A site's numbers (scheduler, queues, cores, walltime, timeouts), from a YAML file. Asks no scheduler."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from chunkloom.errors import ParameterError, nearest
from chunkloom.jobs.spec import walltime_minutes
from chunkloom.settings import environment, home

SCHEDULERS = ("local", "lsf", "slurm")
SHIPPED = ("janelia", "slurm", "local")


@dataclass(frozen=True)
class Queue:
    """A queue with GPUs: its name, what to call it, and (LSF) the host group it runs on."""

    name: str
    label: str = ""
    host_group: str | None = None
    description: str = ""


@dataclass(frozen=True)
class SiteProfile:
    """How jobs are run at a site. Times in seconds."""

    name: str
    scheduler: str
    queues: tuple[Queue, ...] = ()
    default_queue: str | None = None
    charge_group: str | None = None
    walltime: str | None = None
    server_gpus: int = 1
    server_cpus: int = 4
    worker_gpus: int = 1
    worker_cpus: int = 12
    pending_fallback_s: float = 180.0
    startup_timeout_s: float = 300.0
    submit_timeout_s: float = 30.0
    source: str = field(default="", compare=False)

    @classmethod
    def from_dict(cls, data: Any, source: str = "site profile") -> SiteProfile:
        """Parse a profile.

        Raises
        ------
        ParameterError
            A member that is missing, unknown, or not what it should be; the message names the file and the member.
        """
        values = _members(cls, data, source, without=("source",))
        for required in ("name", "scheduler"):
            if not isinstance(values.get(required), str) or not values[required]:
                raise ParameterError(f"{source}: {required}: expected a word, found {values.get(required)!r}")
        if values["scheduler"] not in SCHEDULERS:
            raise ParameterError(
                f"{source}: scheduler {values['scheduler']!r} is unknown: {nearest(values['scheduler'], SCHEDULERS)}"
            )
        queues = values.get("queues") or []
        if not isinstance(queues, list):
            raise ParameterError(f"{source}: queues: expected a list, found {queues!r}")
        values["queues"] = tuple(_queue(queue, f"{source}: queues[{n}]") for n, queue in enumerate(queues))
        names = [queue.name for queue in values["queues"]]
        if len(set(names)) != len(names):
            raise ParameterError(f"{source}: queues: a name is there twice: {', '.join(names)}")
        for member in ("default_queue", "charge_group"):
            if values.get(member) is not None and not isinstance(values[member], str):
                raise ParameterError(f"{source}: {member}: expected a word, found {values[member]!r}")
        values["walltime"] = parse_walltime(values.get("walltime"), source)
        for member, kind in cls.__annotations__.items():
            if kind in ("int", "float") and member in values:
                values[member] = _number(values[member], whole=kind == "int", where=f"{source}: {member}")
        return cls(**values, source=source)

    def queue(self, name: str) -> Queue | None:
        """The queue of this name, or None."""
        return next((queue for queue in self.queues if queue.name == name), None)


def site_profile(named: str | None = None) -> SiteProfile:
    """The profile to use.

    `named`, else `$CHUNKLOOM_SITE`: the name of a shipped profile or the path of a file. Else ``site.yaml`` in
    chunkloom's home. Else by the commands found: ``janelia`` with bsub, ``slurm`` with sbatch, ``local`` with neither.
    """
    named = named or environment("SITE")
    if named is None and (home() / "site.yaml").is_file():
        named = str(home() / "site.yaml")
    if named is None:
        named = "janelia" if shutil.which("bsub") else "slurm" if shutil.which("sbatch") else "local"
    if named in SHIPPED:
        text, source = (resources.files("chunkloom.jobs") / "sites" / f"{named}.yaml").read_text(), f"{named}.yaml"
    else:
        source = named
        try:
            text = Path(named).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"site profile {named!r} is neither a shipped one ({', '.join(SHIPPED)}) nor a file that can be read: "
                f"{error}"
            ) from error
    return SiteProfile.from_dict(load_yaml(text, source), source)


def load_yaml(text: str, source: str) -> Any:
    """Parse YAML; a mistake is an error that names the file and the line."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParameterError(f"{source}: not YAML: {' '.join(str(error).split())}") from error


def parse_walltime(value: Any, source: str) -> str | None:
    """A walltime as text. YAML reads ``12:00`` without quotes as the number 720: minutes, which means the same."""
    if value is None or value == "":
        return None
    text = str(value) if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)) else ""
    if walltime_minutes(text) is None:
        raise ParameterError(f"{source}: walltime {value!r}: expected HH:MM or minutes")
    return text


def _queue(data: Any, where: str) -> Queue:
    values = _members(Queue, {"name": data} if isinstance(data, str) else data, where)
    for member, value in values.items():
        if not (isinstance(value, str) or (member == "host_group" and value is None)):
            raise ParameterError(f"{where}: {member}: expected a word, found {value!r}")
    if not values.get("name"):
        raise ParameterError(f"{where}: name is missing")
    return Queue(**{"label": values["name"], **values})


def _members(cls: Any, data: Any, where: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    known = [f.name for f in dataclasses.fields(cls) if f.name not in without]
    if not isinstance(data, dict):
        raise ParameterError(f"{where}: expected members ({', '.join(known)}), found {data!r}")
    for member in data:
        if member not in known:
            raise ParameterError(f"{where}: unknown member {member!r}: {nearest(str(member), known)}")
    return dict(data)


def _number(value: Any, *, whole: bool, where: str) -> Any:
    fits = isinstance(value, int) if whole else isinstance(value, int | float)
    if isinstance(value, bool) or not fits or not 0 <= value <= 1e6:
        raise ParameterError(
            f"{where}: expected a {'whole ' if whole else ''}number from 0 to 1000000, found {value!r}"
        )
    return value
