"""What a dashboard is started with, parsed once."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chunkloom.chain.spec import PipelineSpec
from chunkloom.io.paths import parse_path
from chunkloom.serving.access import ApiOptions, SourceRules, hosts_from_environment

# Any bucket, and any host that proves its name. Plain http could be a service of this machine's own network.
PUBLIC_PLACES = ("s3:/", "gs:/", "https:/")


@dataclass(frozen=True)
class Start:
    """What a new session begins with.

    Attributes
    ----------
    data_path
        The volume to open, or None.
    chain
        Normalizers and postprocessors; None leaves them to the first model's own.
    models
        Entries ``{"type": …, "name": …, …}`` to run.
    extra_layers
        Layers read as they are stored: ``{"name", "path", "layer_type", "shader"?, "blend"?, "disable_meshes"?}``.
    wrap_raw
        Whether the raw layer goes through the normalizers.
    """

    data_path: str | None = None
    chain: PipelineSpec | None = None
    models: tuple[dict[str, Any], ...] = ()
    extra_layers: tuple[dict[str, Any], ...] = ()
    wrap_raw: bool = True


@dataclass(frozen=True)
class DashboardOptions:
    """Where it listens, who may use it, and what may be opened from the browser."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    sources: SourceRules = field(default_factory=SourceRules)
    hosts: tuple[str, ...] = field(default_factory=hosts_from_environment)
    start: Start = field(default_factory=Start)
    models_run_on: str = "auto"
    cookie_suffix: str = ""

    @property
    def api(self) -> ApiOptions:
        """The options of the chunk server inside: reading only."""
        return ApiOptions(hosts=self.hosts, sources=self.sources)


def usual_sources(roots: Sequence[str], *named: str | None) -> SourceRules:
    """What may be opened from the browser.

    The places of `--allow-root` when there are any; else the home folder, the working folder and public buckets and
    sites. What is `named` on the command line, with what lies beside it, always.
    """
    rules = SourceRules.parse(roots)
    if not roots:
        folders = tuple(dict.fromkeys(os.path.realpath(p) for p in (os.path.expanduser("~"), os.getcwd())))
        rules = replace(rules, folders=folders, places=PUBLIC_PLACES)
    for path in named:
        if path is None or path.startswith("synthetic://"):
            continue
        location = parse_path(path)
        if location.is_local:
            beside = os.path.realpath(os.path.dirname(os.path.abspath(location.base.rstrip("/"))))
            rules = replace(rules, folders=(*rules.folders, beside))
        else:
            rules = replace(rules, places=(*rules.places, *SourceRules.parse([path]).places))
    return rules
