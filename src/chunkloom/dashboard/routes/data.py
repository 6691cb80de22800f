"""Opening data, setting the chain, and equivalences that model servers send."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from chunkloom.chain.registry import chain_schema
from chunkloom.chain.spec import PipelineSpec
from chunkloom.dashboard.routes.bodies import Equivalences, PipelineUpdate, SetData
from chunkloom.dashboard.services.data import opened, set_volume
from chunkloom.dashboard.services.layers import set_equivalences
from chunkloom.dashboard.services.pipeline import Applied, set_chain
from chunkloom.dashboard.services.viewing import new_view, viewer_path
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, context_of, in_session, session_of, success
from chunkloom.errors import ChunkloomError

router = APIRouter()

# When `PUT /api/pipeline` took the place of these two (2026-06-01), as RFC 9745 writes it.
_DEPRECATED = {"Deprecation": "@1780272000", "Link": '</api/pipeline>; rel="successor-version"'}


@router.post("/api/set-data")
async def set_data(body: SetData, request: Request) -> dict[str, Any]:
    """Open a volume in a new viewer."""
    context = context_of(request)

    def work(session: Session, context: Context) -> dict[str, Any]:
        volume = opened(body.dataset_path, context.options.sources)
        set_volume(session, body.dataset_path.strip(), volume, context.chunks)
        layers = new_view(session)
        context.pool.data_changed(session)
        level = volume.levels[0]
        return success(
            neuroglancer_url=viewer_path(session),
            layers=layers,
            dataset={
                "path": session.data_path,
                "shape": list(level.shape),
                "dtype": level.dtype.name,
                "voxel_size_nm": list(level.voxel_size_nm),
                "levels": len(volume.levels),
                "warnings": list(volume.warnings),
            },
        )

    answer = await in_session(request, work)
    context.logs.tell("state", {"reason": "data"}, session_of(request).short)
    return answer


@router.put("/api/pipeline")
async def put_pipeline(body: PipelineUpdate, request: Request) -> dict[str, Any]:
    """Set the chain of the raw layer and of every running model."""
    spec = PipelineSpec.from_request({"input_norm": body.input_norm, "postprocess": body.postprocess})
    applied = await _apply(request, spec, body.builder)
    return success(pipeline=applied.chain.to_json_data(), digest=applied.digest, layers=applied.layers)


@router.get("/api/pipeline")
async def get_pipeline(request: Request) -> dict[str, Any]:
    """The chain in force, and the builder's canvas."""
    session = session_of(request)
    return success(pipeline=session.chain.to_json_data(), digest=session.chain.digest(), builder=session.builder)


@router.get("/api/pipeline/schema")
async def pipeline_schema() -> dict[str, Any]:
    """JSON Schema of a chain: every step with its parameters, ranges, defaults and help."""
    return chain_schema()


@router.post("/api/process", deprecated=True)
async def process(body: dict[str, Any], request: Request, response: Response) -> dict[str, Any]:
    """Both chains, as lists or in the older form. Use `PUT /api/pipeline`."""
    response.headers.update(_DEPRECATED)
    await _apply(request, PipelineSpec.from_json_data(body), None)
    return {"message": "Data received successfully", "received_data": body}


@router.post("/api/pipeline/apply", deprecated=True)
async def apply_nodes(body: dict[str, Any], request: Request, response: Response) -> Any:
    """The builder's nodes. Use `PUT /api/pipeline`."""
    response.headers.update(_DEPRECATED)
    normalizers, postprocessors = body.get("input_normalizers") or [], body.get("postprocessors") or []
    try:
        spec = PipelineSpec.from_builder_nodes(normalizers, postprocessors)
        builder = {
            "normalizers": normalizers,
            "postprocessors": postprocessors,
            **{key: body.get(key) or [] for key in ("models", "inputs", "outputs", "edges")},
        }
        await _apply(request, spec, builder)
    except ChunkloomError as error:
        response.status_code = 400
        return {"valid": False, "error": str(error)}
    return {
        "message": "Pipeline applied successfully",
        "normalizers_applied": len(spec.input_norm),
        "postprocessors_applied": len(spec.postprocess),
    }


async def _apply(request: Request, spec: PipelineSpec, builder: dict[str, Any] | None) -> Applied:
    applied = await in_session(request, lambda session, context: set_chain(session, spec, context.chunks, builder))
    context_of(request).logs.tell("state", {"reason": "pipeline"}, session_of(request).short)
    return applied


@router.post("/update/equivalences")
async def update_equivalences(body: Equivalences, request: Request) -> dict[str, Any]:
    """Which ids are one object, sent by a script. Model servers use an address with a secret of its own."""
    named = await in_session(
        request, lambda session, context: set_equivalences(session, body.dataset, body.equivalences)
    )
    return {"message": f"{len(body.equivalences)} groups for {', '.join(named) or 'no layer'}"}
