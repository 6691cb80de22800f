"""The OpenAPI document: pinned, and held to by the server under generated requests."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from chunkloom import array_volume
from chunkloom.engine.demand import Scheduler
from chunkloom.serving.access import ApiOptions, SourceRules
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer

from .rest_client import RAW, TOKEN, ask, write_zarr

SNAPSHOT = Path(__file__).parent / "openapi.json"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# All but /api/events, whose answer never ends.
OPERATIONS = [
    ("get", "/api/volumes"),
    ("post", "/api/volumes"),
    ("get", "/api/volumes/{name}"),
    ("put", "/api/volumes/{name}"),
    ("delete", "/api/volumes/{name}"),
    ("get", "/api/volumes/{name}/equivalences"),
    ("get", "/api/ops"),
    ("get", "/api/schema"),
    ("get", "/api/plan"),
    ("get", "/api/cache"),
    ("delete", "/api/cache"),
    ("get", "/api/queue"),
]


def pinned(document):
    """The document without what differs between versions: its version, and the ops there are."""
    schemas = document["components"]["schemas"]
    for name in [name for name in schemas if name.startswith("Op_")]:
        del schemas[name]
    for name in ("VolumeSpec", "Computation"):
        schemas[name]["properties"]["ops"]["items"] = "one of the ops"
    del document["info"]["version"]
    return document


def test_the_openapi_document_is_as_it_was(serve, tmp_path):
    found = pinned(ask(serve({}), "/api/openapi.json").json)
    written = tmp_path / "openapi.json"
    written.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(SNAPSHOT.read_text()), f"where the change is meant: cp {written} {SNAPSHOT}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    write_zarr(place / "a.zarr")
    return place


@pytest.fixture(scope="module")
def server(place):
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([str(place)]))
    app = create_app({"em": array_volume(RAW, chunk=(16, 16, 16))}, scheduler=Scheduler(2), api=api)
    with VolumeServer(app) as started:
        yield started


@pytest.fixture(scope="module")
def described(server, place):
    """The document, with names and sources that are there: others are all refused alike."""
    document = ask(server, "/api/openapi.json").json
    names = {"type": "string", "enum": ["em", "none"]}
    for path in ("/api/volumes/{name}", "/api/plan"):
        for operation in document["paths"][path].values():
            for parameter in operation["parameters"]:
                if parameter["name"] in ("name", "volume"):
                    parameter["schema"] = names
    for body in ("VolumeSpec", "Computation"):
        properties = document["components"]["schemas"][body]["properties"]
        properties["source"] = {"type": "string", "enum": [str(place / "a.zarr"), str(place / "none")]}
        properties["model"] = {"enum": [None, str(place / "none.onnx")]}
    loaded = schemathesis.openapi.from_dict(document)
    loaded.config.update(base_url=server.url)
    return loaded


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda text: text)
def test_generated_requests_are_answered_as_the_document_says(server, described, method, path, mode):
    # As it was, whatever an earlier test made and deleted.
    for name in list(server.app.volumes):
        server.app.remove(name)
    server.app.add("em", array_volume(RAW, chunk=(16, 16, 16)))
    operation = described[path][method]
    if mode.is_negative and not (operation.path_parameters or operation.query or operation.body):
        pytest.skip("takes nothing that could be wrong")
    checks = [*CHECKS, negative_data_rejection] if mode.is_negative else CHECKS

    @hypothesis.settings(
        max_examples=50,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def answered(case):
        # Only the checks above: those that ask again would make and delete volumes of their own.
        case.call_and_validate(headers={"X-Chunkloom-Token": TOKEN}, checks=checks)

    answered()


def test_every_operation_is_tried(described):
    found = {
        (operation.method, operation.path) for operation in (result.ok() for result in described.get_all_operations())
    }
    assert found == {*OPERATIONS, ("get", "/api/events")}
