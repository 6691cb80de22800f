"""Whole-volume runs from the builder's pipeline: checked, written as task files, submitted as a job.

A run that was submitted goes on when the dashboard ends: it is what people go home over.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chunkloom.blockwise.run import precheck
from chunkloom.blockwise.task import load_task
from chunkloom.chain.spec import PipelineSpec
from chunkloom.dashboard.services.launching import log_folder
from chunkloom.dashboard.sessions import Session
from chunkloom.errors import ParameterError
from chunkloom.jobs.launch import scheduler_for
from chunkloom.jobs.settings import launcher_settings
from chunkloom.jobs.site import site_profile
from chunkloom.jobs.spec import JobSpec
from chunkloom.serving.access import SourceRules
from chunkloom.settings import home

COUNTS = ("nb_workers", "nb_cores_worker", "nb_cores_master")


@dataclass(frozen=True)
class Planned:
    """A pipeline of the builder, checked: what a task needs of it."""

    data_path: str
    output_path: str
    output_channels: Any
    models: dict[str, dict[str, Any]]
    chain: PipelineSpec
    boxes: list[dict[str, Any]]
    separate: bool
    settings: dict[str, Any]


def planned(pipeline: dict[str, Any], session: Session) -> Planned:
    """Check the nodes that a run needs, and take what it needs from them.

    Raises
    ------
    ParameterError
        A node or a setting that is missing, in words.
    """
    for kind, called in (("inputs", "an input"), ("outputs", "an output"), ("models", "a model")):
        if not pipeline.get(kind):
            raise ParameterError(f"the pipeline has no {called.split()[1]} node: add {called}")
    if not pipeline.get("blockwise_config"):
        raise ParameterError("the pipeline has no blockwise node: add its settings")
    source, target = _first(pipeline["inputs"]), _first(pipeline["outputs"])
    for node, called in ((source, "input"), (target, "output")):
        if not str(node.get("dataset_path") or "").strip():
            raise ParameterError(f"the first {called} node has no dataset_path")
    models = {
        str(node.get("name") or f"model_{i}"): {k: v for k, v in _params(node).items() if k != "name"}
        for i, node in enumerate(pipeline["models"])
    }
    chain = PipelineSpec.from_builder_nodes(pipeline.get("normalizers") or [], pipeline.get("postprocessors") or [])
    return Planned(
        str(source["dataset_path"]).strip(),
        str(target["dataset_path"]).strip(),
        target.get("output_channels") or None,
        models,
        chain,
        list(source.get("bounding_boxes") or []),
        bool(source.get("separate_bounding_boxes_zarrs")),
        _settings(_params(_first([pipeline["blockwise_config"]])), session),
    )


def _first(nodes: Any) -> dict[str, Any]:
    node = nodes[0] if isinstance(nodes, list) else nodes
    if isinstance(node, list):
        node = node[0] if node else {}
    if not isinstance(node, dict):
        raise ParameterError(f"{node!r} is no node: expected an object")
    return node


def _params(node: dict[str, Any]) -> dict[str, Any]:
    inner = node.get("params") or node.get("config")
    return dict(inner) if isinstance(inner, dict) else dict(node)


def _settings(given: dict[str, Any], session: Session) -> dict[str, Any]:
    """The six settings of a run: the node's, else the person's, else the site's."""
    kept, site = launcher_settings(), site_profile()
    values: dict[str, Any] = {"tmp_dir": session.folders.get("tmp_dir"), **kept.over(site)}
    values |= {name: getattr(kept, name) for name in COUNTS}
    values |= {key: value for key, value in given.items() if key in values and value not in (None, "")}
    for name in COUNTS:
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name} {value!r}: expected a whole number of at least 1")
    if not values["tmp_dir"]:
        raise ParameterError("tmp_dir is missing: name a folder, seen by all workers, for the marks of finished blocks")
    if site.scheduler == "lsf" and not values["charge_group"]:
        raise ParameterError("charge_group is missing: LSF needs to know who pays")
    return values


def generate(pipeline: dict[str, Any], name: str | None, session: Session, sources: SourceRules) -> dict[str, Any]:
    """Write the task files of a pipeline: one, or one for each box where they are written apart.

    Raises
    ------
    ParameterError
        As `planned`.
    AccessError
        An output or a folder outside the allowed places.
    """
    plan = planned(pipeline, session)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name or "").strip("._-") or "chunkloom"
    task = f"{stem}_{datetime.datetime.now():%Y%m%d_%H%M%S}"
    output = sources.admitted_file(plan.output_path)
    tmp_dir = sources.admitted_file(plan.settings["tmp_dir"])
    folder = tasks_folder(session, sources)
    folder.mkdir(parents=True, exist_ok=True)
    common: dict[str, Any] = {
        "data_path": plan.data_path,
        "models": plan.models,
        "json_data": plan.chain.to_json_data(),
        "workers": plan.settings["nb_workers"],
        "cpu_workers": plan.settings["nb_cores_worker"],
        "tmp_dir": tmp_dir,
        "track_progress": True,
    }
    common |= {key: plan.settings[key] for key in ("queue", "charge_group", "walltime") if plan.settings.get(key)}
    if plan.output_channels:
        common["output_channels"] = plan.output_channels
    configs = []
    if plan.separate and plan.boxes:
        for i, box in enumerate(plan.boxes, 1):
            apart = {"task_name": f"{task}_box{i}", "output_path": f"{output}/box_{i}", "bounding_boxes": [box]}
            configs.append({**common, **apart, "separate_bounding_boxes_zarrs": True})
    else:
        boxes = {"bounding_boxes": plan.boxes} if plan.boxes else {}
        configs.append({**common, "task_name": task, "output_path": output, **boxes})
    paths = []
    for config in configs:
        path = folder / f"{config['task_name']}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120))
        load_task(path)
        paths.append(str(path))
    return {
        "task_yaml": Path(paths[0]).read_text(),
        "task_config": configs[0],
        "task_paths": paths,
        "task_name": task,
        "message": f"wrote {len(paths)} task file{'s' if len(paths) > 1 else ''} in {folder}",
    }


def checked(paths: Sequence[str], session: Session, sources: SourceRules) -> None:
    """Everything that a run checks before it writes, for each file. Raises for the first that does not fit."""
    if not paths:
        raise ParameterError("no task files: generate them first")
    for path in paths:
        precheck(load_task(task_file(path, session, sources)))


def submit(paths: Sequence[str], name: str, session: Session, sources: SourceRules) -> dict[str, Any]:
    """Start one master over the task files, where the site runs jobs. It does not end with the dashboard."""
    files = [str(task_file(path, session, sources)) for path in paths]
    settings, site = launcher_settings(), site_profile()
    spec = JobSpec(
        f"blockwise-{name}",
        argv=(sys.executable, "-P", "-m", "chunkloom", "blockwise", *files),
        gpus=0,
        cpus=settings.nb_cores_master,
        log_dir=log_folder(),
        charge_group=settings.charge_group or site.charge_group,
        walltime=settings.walltime or site.walltime,
    )
    job = scheduler_for(site).submit(spec)
    return {
        "job_id": job.id or "unknown",
        "task_name": name,
        "task_paths": files,
        "log_path": None if job.log is None else str(job.log),
        "command": " ".join(spec.words),
        "message": f"submitted as job {job.id}",
    }


def tasks_folder(session: Session, sources: SourceRules) -> Path:
    """Where task files are written: the session's choice, else our home."""
    chosen = session.folders.get("blockwise_tasks_dir")
    return Path(sources.admitted_file(chosen)) if chosen else home() / "blockwise_tasks"


def task_file(path: str, session: Session, sources: SourceRules) -> Path:
    """A task file that this dashboard may read: one in its folder of tasks."""
    real = Path(path).expanduser().resolve()
    folder = tasks_folder(session, sources).resolve()
    if real.parent != folder or real.suffix not in (".yaml", ".yml"):
        raise ParameterError(f"{path} is no task file of this dashboard: expected a .yaml in {folder}")
    if not real.is_file():
        raise ParameterError(f"{path} is not there: generate it again")
    return real
