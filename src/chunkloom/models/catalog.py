"""Models to choose from: entries of a YAML file, and the models of an organisation on a Hub. Both are settable.

A YAML file holds ``{group: {model name: folder}}``. What a Hub said is kept in a file, and asked for again on
`refresh` only.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkloom.errors import ParameterError
from chunkloom.settings import environment, home

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CatalogEntry:
    """One model on offer: the group and name it is listed under, and the entry that makes it."""

    group: str
    name: str
    entry: dict[str, Any]


def read_catalog(path: Path) -> list[CatalogEntry]:
    """The models of a YAML file. Raises `ParameterError` naming the file, the key, what was found and expected."""
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"catalog {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ParameterError(f"catalog {path} is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise ParameterError(f"catalog {path}: expected {{group: {{model: folder}}}}, found a {type(data).__name__}")
    entries = []
    for group, models in data.items():
        if not isinstance(models, dict):
            raise ParameterError(f"catalog {path}: {group!r} is {models!r}: expected {{model: folder}}")
        for name, folder in models.items():
            if not isinstance(folder, str):
                raise ParameterError(f"catalog {path}: {group}: {name!r} is {folder!r}: expected a folder")
            entry = {"type": "cellmap", "folder_path": folder, "name": str(name)}
            entries.append(CatalogEntry(str(group), str(name), entry))
    return entries


def hub_organisation() -> str:
    """Whose models a Hub is asked for: `$CHUNKLOOM_HUB_ORGANISATION`, else "cellmap"."""
    return environment("HUB_ORGANISATION") or "cellmap"


def hub_models() -> dict[str, dict[str, Any]]:
    """Repository to its metadata, as the Hub said last; empty before the first `refresh_hub_models`."""
    try:
        data = json.loads(_kept().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def refresh_hub_models(
    endpoint: str, organisation: str | None = None, timeout: float = 10
) -> dict[str, dict[str, Any]]:
    """Ask a Hub for an organisation's models and their `metadata.json`, and keep the answer.

    A model without readable metadata is left out. Where the Hub cannot be asked at all, the answer is empty and
    what was kept stays.

    Parameters
    ----------
    endpoint
        The Hub's address, http or https.
    organisation
        Default: `hub_organisation()`.
    """
    base = endpoint.rstrip("/")
    if urllib.parse.urlsplit(base).scheme not in ("http", "https"):
        raise ParameterError(f"the Hub's address is {endpoint!r}: expected http://… or https://…")
    author = urllib.parse.quote(organisation or hub_organisation())
    try:
        listed = _json(f"{base}/api/models?author={author}", timeout)
    except (OSError, ValueError) as error:
        _log.warning("%s does not list the models of %s: %s", base, author, error)
        return {}
    found = {}
    for repo in [str(model.get("id")) for model in listed if isinstance(model, dict)]:
        try:
            found[repo] = _json(f"{base}/{urllib.parse.quote(repo)}/resolve/main/metadata.json", timeout)
        except (OSError, ValueError) as error:
            _log.info("%s has no metadata to show: %s", repo, error)
    _keep(found)
    return found


def hub_entries(models: dict[str, dict[str, Any]]) -> list[CatalogEntry]:
    """The models of a Hub as entries, grouped by organisation."""
    return [
        CatalogEntry(
            repo.partition("/")[0],
            str(metadata.get("model_name") or repo.rpartition("/")[2]),
            {"type": "huggingface", "repo": repo},
        )
        for repo, metadata in sorted(models.items())
    ]


def _json(url: str, timeout: float) -> Any:
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.loads(answer.read(16 << 20))


def _kept() -> Path:
    return home() / "hugging_face" / "models_cache.json"


def _keep(models: dict[str, dict[str, Any]]) -> None:
    path = _kept()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as beside:
        json.dump(models, beside, indent=2)
    os.replace(beside.name, path)
