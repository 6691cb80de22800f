"""A session as the YAML file that `chunkloom yaml` opens again."""

from __future__ import annotations

from typing import Any

import yaml

from chunkloom.dashboard.sessions import Session


def session_config(session: Session) -> dict[str, Any]:
    """Data, models, chain and extra layers, under the keys of the file."""
    config: dict[str, Any] = {"data_path": session.data_path}
    config["models"] = {
        running.name: {key: value for key, value in running.entry.items() if key != "name"}
        for running in session.models.values()
    }
    config["json_data"] = session.chain.to_json_data()
    config["wrap_raw"] = session.wrap_raw
    layers = [
        {
            key: value
            for key, value in {
                "name": session.drawn[extra.served].name if extra.served in session.drawn else extra.name,
                "path": extra.path,
                "layer_type": extra.layer_type,
                "shader": extra.shader,
                "blend": extra.blend,
                "disable_meshes": extra.disable_meshes or None,
            }.items()
            if value is not None
        }
        for extra in session.extra_layers
    ]
    if layers:
        config["extra_layers"] = layers
    return config


def as_yaml(session: Session) -> str:
    """The file's text, keys in the order a person reads them."""
    return yaml.safe_dump(session_config(session), sort_keys=False, allow_unicode=True, width=120)
