"""Whether the chain suits the models that run: a double sigmoid and its like, said before an hour is lost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from chunkloom.dashboard.services.models import RunningModel
from chunkloom.dashboard.sessions import Session
from chunkloom.serving.probe import review_postprocess, suggest_input_norm


def advice_on(session: Session, running: RunningModel) -> dict[str, Any]:
    """What is known of a model's output, and what follows for the chain."""
    info = running.server.info
    told: dict[str, Any] = {
        "model": running.name,
        "probe_available": bool(info.get("available")),
        "out_channels": info.get("output_channels"),
        "output_class": info.get("output_class"),
        "output_min": info.get("output_min"),
        "output_max": info.get("output_max"),
        "configured_input_norm": session.chain.input_norm,
        "configured_postprocess": session.chain.postprocess,
        "postprocess_review": None,
    }
    if told["output_class"]:
        review = review_postprocess(
            session.chain.postprocess,
            told["output_class"],
            channels=int(info.get("output_channels") or 1),
            name=running.name,
            channel_names=info.get("channels") or (),
        )
        told["postprocess_review"] = asdict(review)
    own = (info.get("chain") or {}).get("input_norm") or None
    dtype = "uint8" if session.volume is None else session.volume.levels[0].dtype
    suggestion = suggest_input_norm(declared=own, framework=running.entry.get("type"), raw_dtype=dtype)
    told["input_norm_suggestion"] = suggestion
    told["input_norm_matches"] = _plain(suggestion["input_norm"]) == _plain(session.chain.input_norm)
    return told


def _plain(steps: Any) -> list[tuple[tuple[str, str], ...]]:
    return [tuple(sorted((key, str(value)) for key, value in dict(step).items())) for step in steps]
