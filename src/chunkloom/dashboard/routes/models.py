"""Models: the forms to describe one, starting and stopping, their output."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from chunkloom.dashboard.routes.bodies import CreateModel, SelectModels
from chunkloom.dashboard.services.advice import advice_on
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, context_of, in_session, session_of, success
from chunkloom.models.registry import build_model, describe_parameters, model_types

router = APIRouter()


@router.get("/api/model-config-types")
async def model_config_types() -> dict[str, Any]:
    """Every kind of model with its parameters, for forms."""
    return success(
        types={
            word: {
                "class_name": cls.__name__,
                "help": (cls.__doc__ or "").strip().partition("\n")[0],
                "params": [
                    {"name": p.name, "required": p.required, "default": p.default, "help": p.help}
                    for p in describe_parameters(cls)
                ],
            }
            for word, cls in model_types().items()
        }
    )


@router.post("/api/create-model-config")
async def create_model_config(body: CreateModel) -> dict[str, Any]:
    """The entry of a model, checked: for a node of the builder, or to be started."""
    by_class = {cls.__name__: word for word, cls in model_types().items()}
    word = by_class.get(body.class_name, body.class_name)
    entry = {"type": word, **{key: value for key, value in body.params.items() if value not in (None, "")}}
    build_model(entry)
    return success(config=entry, entry=entry)


@router.get("/api/models")
async def list_models(request: Request) -> dict[str, Any]:
    """The models of this session, and those the dashboard offers."""
    from chunkloom.models.modeljson import bundled_models

    return success(
        models=context_of(request).pool.listed(session_of(request)),
        bundled=[{"type": "onnx", "name": name, "path": name} for name in bundled_models()],
    )


@router.post("/api/models")
async def select_models(body: SelectModels, request: Request) -> dict[str, Any]:
    """Start and stop so that exactly the selected ones run. Answers at once; layers appear when servers answer."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        context.pool.sync(session, [*body.selected_models, *body.selected_hf_models])
        return {
            "message": "Models are being started and stopped",
            "models": context.pool.listed(session),
            "hf_models": [],
        }

    answer = await in_session(request, work)
    context_of(request).logs.tell("state", {"reason": "models"}, session_of(request).short)
    return answer


@router.get("/api/model_advice")
async def model_advice(request: Request) -> dict[str, Any]:
    """What is known of each running model's output, and whether the chain suits it."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        running = [model for model in session.models.values() if model.state == "running"]
        return success(models=[advice_on(session, model) for model in running])

    return await in_session(request, work)


@router.get("/api/job-logs")
async def job_logs(request: Request) -> dict[str, Any]:
    """The ends of the model servers' outputs."""
    return success(logs=context_of(request).pool.logs(session_of(request)))
