"""The routes of the REST API, on a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest

from chunkloom import Op, Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.serving.access import ApiOptions, SourceRules

from .rest_client import RAW, TOKEN, ask, edit, write_zarr


@pytest.fixture
def served(serve, tmp_path):
    """A server that lets volumes below `tmp_path/data` be made; one is served as `em`."""
    (tmp_path / "data").mkdir()
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([str(tmp_path / "data")]))
    return serve({"em": array_volume(RAW, voxel_size_nm=(8, 4, 4), chunk=(16, 16, 16))}, api=api)


@pytest.fixture
def stored(tmp_path):
    return write_zarr(tmp_path / "data/raw.zarr")


def voxels(server, name):
    return np.frombuffer(urllib.request.urlopen(f"{server.url}/{name}/zarr2/s0/0/0/0").read(), np.uint8)


def test_the_web_framework_is_imported_at_the_first_call_only():
    code = (
        "import sys, chunkloom.serving.app, chunkloom.cli.serve, chunkloom.serving.run\n"
        "print([m for m in ('fastapi', 'pydantic', 'starlette', 'prometheus_client') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_volumes_are_listed_with_what_clients_see_of_them(served):
    reply = ask(served, "/api/volumes")
    assert reply.status == 200
    [entry] = reply.json["volumes"]
    assert entry["name"] == "em"
    assert entry["digest"] == served.app.volumes["em"].digest
    assert entry["urls"] == {w: f"/em/{w}" for w in ("zarr2", "zarr3", "n5", "precomputed")}
    assert entry["levels"][0] == {
        "shape": [40, 40, 40],
        "dtype": "uint16",
        "chunk_shape": [16, 16, 16],
        "axes": ["z", "y", "x"],
        "voxel_size_nm": [8, 4, 4],
        "corner_nm": [0, 0, 0],
    }
    assert ask(served, "/api/volumes/em").json == entry


def test_a_volume_made_is_served_at_once(served, stored):
    spec = {"name": "cells", "source": stored, "ops": [{"op": "threshold", "low": 50}]}
    reply = edit(served, "/api/volumes", "POST", spec)
    assert reply.status == 201, reply.body
    assert reply.headers["location"] == "/api/volumes/cells"
    raw = urllib.request.urlopen(f"{served.url}/cells/@{reply.json['digest']}/zarr2/s0/.zarray")
    assert json.load(raw)["dtype"] == "|u1"
    pixels = ask(served, "/cells/zarr2/s0/0/0/0")
    assert pixels.status == 200
    assert {v["name"] for v in ask(served, "/api/volumes").json["volumes"]} == {"em", "cells"}


def test_a_volume_made_has_the_digest_of_the_same_volume_made_in_python(served, stored):
    from chunkloom import open_volume

    same = Pipeline(open_volume(os.path.realpath(stored)), [ops.Threshold(low=50)])
    spec = {"name": "cells", "source": stored, "ops": [{"op": "threshold", "low": 50}]}
    assert edit(served, "/api/volumes", "POST", spec).json["digest"] == same.digest


def test_a_volume_replaced_has_a_new_digest_and_new_voxels(served, stored):
    first = edit(served, "/api/volumes", "POST", {"name": "a", "source": stored}).json["digest"]
    before = ask(served, "/a/zarr2/s0/0/0/0").body
    reply = edit(served, "/api/volumes/a", "PUT", {"source": stored, "ops": [{"op": "invert"}]})
    assert reply.status == 200
    assert reply.json["digest"] != first
    assert ask(served, "/a/zarr2/s0/0/0/0").body != before
    assert ask(served, f"/a/@{first}/zarr2/s0/0/0/0").status == 404


def test_a_volume_deleted_is_404_also_where_a_chunk_was_kept(served):
    assert ask(served, "/em/zarr2/s0/0/0/0").status == 200
    assert edit(served, "/api/volumes/em", "DELETE").status == 204
    assert ask(served, "/em/zarr2/s0/0/0/0").status == 404
    assert ask(served, "/api/volumes/em").status == 404
    assert edit(served, "/api/volumes/em", "DELETE").status == 404


def test_a_chunk_finished_after_its_volume_was_deleted_is_not_kept(serve):
    import dataclasses

    begun, gate = threading.Event(), threading.Event()

    @dataclasses.dataclass(frozen=True)
    class Slow(Op):
        def apply(self, block):
            begun.set()
            gate.wait(20)
            return block

    server = serve({"a": Pipeline(array_volume(RAW, chunk=(16, 16, 16)), [Slow()])})
    asked = threading.Thread(target=ask, args=(server, "/a/zarr2/s0/0/0/0"))
    asked.start()
    assert begun.wait(20)
    server.app.remove("a")
    gate.set()
    asked.join()
    assert ask(server, "/a/zarr2/s0/0/0/0").status == 404


def test_a_taken_name_is_409_and_the_volume_stays(served, stored):
    digest = served.app.volumes["em"].digest
    reply = edit(served, "/api/volumes", "POST", {"name": "em", "source": stored})
    assert reply.status == 409
    assert "PUT /api/volumes/em" in reply.error
    assert served.app.volumes["em"].digest == digest


def test_replacing_what_is_not_there_is_404_with_the_nearest_name(served, stored):
    reply = edit(served, "/api/volumes/ems", "PUT", {"source": stored})
    assert reply.status == 404
    assert "'em'" in reply.error


def test_what_a_volume_is_made_of_is_told_with_the_token_only(served, stored):
    edit(served, "/api/volumes", "POST", {"name": "a", "source": stored, "ops": [{"op": "invert"}]})
    told = ask(served, "/api/volumes/a", token=TOKEN).json
    assert told["spec"] == {"source": stored, "ops": [{"op": "invert"}]}
    for path in ("/api/volumes", "/api/volumes/a", "/api/plan?volume=a", "/metrics", "/api/openapi.json", "/api/docs"):
        for token in (None, "wrong"):
            assert os.path.basename(stored).encode() not in ask(served, path, token=token).body, path


def test_a_volume_of_the_command_line_is_described_from_what_it_is(serve, tmp_path):
    from chunkloom import open_volume

    path = write_zarr(tmp_path / "raw.zarr")
    volume = Pipeline(open_volume(path), [ops.Threshold(low=3)])
    server = serve({"a": volume}, api=ApiOptions(token=TOKEN))
    told = ask(server, "/api/volumes/a", token=TOKEN).json["spec"]
    assert told["source"] == path
    assert told["ops"] == [{"op": "threshold", "low": 3, "high": None}]
    assert "spec" not in ask(server, "/api/volumes/a").json


def test_a_model_is_served_by_its_bundled_name(served, tmp_path):
    from chunkloom.models.registry import bundled_models

    if "fibsem-membrane" not in bundled_models():
        pytest.skip("no bundled model in this checkout")
    source = write_zarr(tmp_path / "data/em.zarr", (RAW % 251).astype(np.uint8))
    reply = edit(served, "/api/volumes", "POST", {"name": "m", "source": source, "model": "fibsem-membrane"})
    assert reply.status == 201, reply.body
    assert reply.json["levels"][0]["shape"][-3:] == [40, 40, 40]


def test_ops_are_listed_with_a_schema_of_their_parameters(served):
    listed = {op["name"]: op for op in ask(served, "/api/ops").json["ops"]}
    assert set(listed) >= {"threshold", "cast", "clip", "scale", "invert"}
    threshold = listed["threshold"]["schema"]
    assert threshold["required"] == ["op", "low"]
    assert threshold["properties"]["low"]["type"] == "number"
    assert threshold["properties"]["high"]["default"] is None
    assert threshold["additionalProperties"] is False
    assert listed["threshold"]["description"].startswith("1 where the value is at least `low`")


def test_help_of_parameters_comes_from_the_docstring():
    import dataclasses

    from chunkloom.serving.schema import op_model

    @dataclasses.dataclass(frozen=True)
    class Blur(Op):
        """Smooths.

        Parameters
        ----------
        sigma : float
            Of the kernel,
            in voxels.
        truncate
            Where it ends.
        """

        sigma: tuple[float, float, float] | float
        truncate: float = 4.0

        name = "test-blur"

    made = op_model(Blur).model_json_schema()
    assert made["description"] == "Smooths."
    assert made["properties"]["sigma"]["description"] == "Of the kernel, in voxels."
    assert made["properties"]["truncate"] == {
        "default": 4.0,
        "description": "Where it ends.",
        "title": "Truncate",
        "type": "number",
    }


def test_the_schema_of_a_volume_tells_good_bodies_from_bad_ones(served):
    import jsonschema

    schema = ask(served, "/api/schema").json
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid({"name": "a", "source": "x", "ops": [{"op": "threshold", "low": 1, "high": 2.5}]})
    assert check.is_valid({"name": "a", "source": "x", "select": {"c": 0}, "model": {"type": "onnx", "path": "m"}})
    assert not check.is_valid({"name": "a", "source": "x", "ops": [{"op": "threshold"}]})
    assert not check.is_valid({"name": "a", "source": "x", "ops": [{"op": "tresh", "low": 1}]})
    assert not check.is_valid({"name": "api", "source": "x"})


def test_a_plan_counts_the_chunks_that_are_then_made(serve):
    import dataclasses

    made = []

    @dataclasses.dataclass(frozen=True)
    class Kept(Op):
        name = "kept-mean"
        cache = True
        halo = (2, 2, 2)

        def apply_at(self, block, box, level):
            made.append(box.lo)
            return block

    cache = ChunkCache(1 << 28)
    source = array_volume(RAW, chunk=(16, 16, 16))
    server = serve({"a": Pipeline(source, [Kept(), ops.Invert()], chunk=(8, 8, 8), cache=cache)})
    plan = ask(server, "/api/plan?volume=a&level=1&box=0:8,0:8,4:12").json
    stages = [(s["stage"], s["level"], s["chunks"], s["kept"]) for s in plan["stages"]]
    assert made == []
    # Level 1 in x 0:16 is 0:32 of the fine level; the halo reaches two voxels further, where there is data.
    assert stages == [
        ("pyramid", 1, 2, True),
        ("invert", 0, 2 * 2 * 4, False),
        ("kept-mean", 0, 2 * 2 * 4, True),
        ("source", 0, 2 * 2 * 3, False),
    ]
    assert plan["stages"][-1]["box"] == [[0, 18], [0, 18], [0, 34]]
    assert plan["stages"][-1]["bytes"] == 18 * 18 * 34 * 2
    server.app.volumes["a"].volume.read(((0, 8), (0, 8), (4, 12)), level=1)
    assert len(made) == len(set(made)) == 2 * 2 * 4


def test_a_plan_of_a_huge_box_is_told_without_listing_its_chunks(serve):
    from chunkloom.engine.volume import Level, Volume
    from chunkloom.geometry import Grid

    class Huge(Volume):
        levels = (Level((2**20,) * 3, np.dtype(np.uint64), (64, 64, 64), ("z", "y", "x"), Grid((1, 1, 1), (0, 0, 0))),)
        stage_digest = "huge"

        def read_box(self, level, box, work):
            raise AssertionError("read")

    server = serve({"a": Pipeline(Huge(), [ops.Invert()])})
    stages = ask(server, "/api/plan?volume=a").json["stages"]
    assert stages[0]["chunks"] == (2**20 // 64) ** 3
    assert stages[0]["bytes"] == 8 * 2**60


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("", 422, "volume"),
        ("volume=none", 404, "none"),
        ("volume=em&level=5", 422, "levels 0 to 0"),
        ("volume=em&level=-1", 422, "level"),
        ("volume=em&level=x", 422, "level"),
        ("volume=em&box=0:1", 422, "box"),
        ("volume=em&box=0:41,0:1,0:1", 422, "not inside"),
        ("volume=em&box=1:1,0:1,0:1", 422, "not empty"),
        ("volume=em&box=5:1,0:1,0:1", 422, "not empty"),
    ],
)
def test_a_plan_of_what_is_not_there_is_refused(served, query, status, says):
    reply = ask(served, f"/api/plan?{query}")
    assert reply.status == status
    assert says in reply.error


def test_caches_are_measured_and_cleared(serve, monkeypatch):
    import dataclasses

    from chunkloom.engine import chunked

    @dataclasses.dataclass(frozen=True)
    class Kept(Op):
        cache = True

        def apply(self, block):
            return block

    # The process's own cache may hold what other tests made.
    monkeypatch.setattr(chunked, "_process_cache", ChunkCache(1 << 20))
    cache = ChunkCache(1 << 20)
    volume = Pipeline(array_volume(RAW, chunk=(16, 16, 16)), [Kept()], cache=cache)
    server = serve({"a": volume}, api=ApiOptions(allow_edit=True, token=TOKEN))
    ask(server, "/a/zarr2/s0/0/0/0")
    full = ask(server, "/api/cache").json
    assert full["decoded"]["bytes"] == cache.kept.used == 16**3 * 2
    assert full["decoded"]["limit"] == 2 << 20
    assert full["encoded"]["entries"] == 1
    assert full["encoded"]["bytes"] > 0
    cleared = edit(server, "/api/cache", "DELETE").json
    assert cleared["decoded"]["bytes"] == cleared["encoded"]["bytes"] == cleared["encoded"]["entries"] == 0
    assert cache.kept.used == 0


def test_the_queue_is_told_per_level(serve):
    import dataclasses

    gate = threading.Event()

    @dataclasses.dataclass(frozen=True)
    class Slow(Op):
        def apply(self, block):
            gate.wait(20)
            return block

    server = serve({"a": Pipeline(array_volume(RAW, chunk=(16, 16, 16)), [Slow()])})
    threads = [threading.Thread(target=ask, args=(server, f"/a/zarr2/s0/{i}/0/0")) for i in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while (queue := ask(server, "/api/queue").json)["waiting"] != {"0": 1}:
        assert time.monotonic() < end, queue
    assert queue["running"] == {"0": 2}
    assert queue["workers"] == 2
    gate.set()
    for thread in threads:
        thread.join()
    assert ask(server, "/api/queue").json["done"] == 3


def test_the_docs_page_takes_nothing_from_elsewhere(served):
    reply = ask(served, "/api/docs")
    assert reply.status == 200
    assert b"POST /api/volumes" in reply.body
    assert b"://" not in reply.body.replace(b"synthetic://", b"")
    assert b"<script" not in reply.body
    assert "default-src 'none'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/docs", "/docs/", "/api", "/api/"])
def test_the_docs_page_is_found_from_short_paths(served, path):
    reply = ask(served, path)
    assert (reply.status, reply.headers["location"]) == (307, "/api/docs")


def test_chunks_are_answered_while_the_api_is_imported(serve):
    """In a process of its own, where nothing has imported the web framework yet."""
    code = """
import threading, time, urllib.request, numpy as np, sys
from chunkloom import array_volume
from chunkloom.engine.demand import Scheduler
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer
array = np.zeros((16, 16, 16), np.uint8)
with VolumeServer(create_app({"a": array_volume(array, chunk=(16, 16, 16))})) as server:
    get = lambda path: urllib.request.urlopen(server.url + path).read()
    get("/a/zarr2/s0/0/0/0")
    api = threading.Thread(target=get, args=("/api/queue",))
    api.start()
    answered = 0
    while api.is_alive():
        get("/a/zarr2/s0/0/0/0")
        answered += 1
    print(answered, "fastapi" in sys.modules)
"""
    answered, imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert imported == "True"
    assert int(answered) >= 3


def test_a_mounted_app_names_its_paths_from_where_it_is_mounted():
    import asyncio

    from chunkloom.serving.app import create_app

    app = create_app({"a": array_volume(RAW)})

    async def get(path):
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"localhost:1")]
        scope = {"type": "http", "method": "GET", "path": f"/volumes{path}", "root_path": "/volumes"}
        await app({**scope, "headers": headers, "query_string": b"", "server": None}, receive, send)
        return json.loads(sent[1]["body"])

    assert asyncio.run(get("/api/volumes/a"))["urls"]["zarr2"] == "/volumes/a/zarr2"
    assert asyncio.run(get("/api/openapi.json"))["servers"] == [{"url": "/volumes"}]
