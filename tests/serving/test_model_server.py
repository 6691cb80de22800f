"""The model server as its clients meet it: layers, the older address, what it says of itself, restarts."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import threading
import time

import numcodecs
import numpy as np
import pytest

from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.demand import Scheduler
from chunkloom.errors import ConflictError
from chunkloom.serving.model_server import LAYERS, Restart, create_model_app
from chunkloom.serving.protocol import Dashboard, layer_name
from chunkloom.serving.run import VolumeServer

from .conftest import READERS
from .test_app import ask
from .toy_models import RAW, Counted, toy_model, whole

EMPTY = PipelineSpec()


def chain(*post, norm=True):
    norms = [{"name": "MinMaxNormalizer"}] if norm else []
    return PipelineSpec.from_steps_data(norms, [{"name": name, **more} for name, more in post])


SIGMOID = ("SigmoidPostprocessor", {})
HALF = ("ThresholdPostprocessor", {"threshold": 0.5})


def server_of(*models, **options):
    named = {model.name: model for model in models}
    volumes = {name: model.prediction(model.chain) for name, model in named.items()}
    return VolumeServer(create_model_app(volumes, named, scheduler=Scheduler(2), **options))


@pytest.fixture
def serve_models():
    """Serve toy models: ``serve_models(toy_model()) -> VolumeServer``."""
    with contextlib.ExitStack() as stack:
        yield lambda *models, **options: stack.enter_context(server_of(*models, **options))


@pytest.fixture(scope="module")
def toy_server():
    """A server of one toy model, for tests that change nothing."""
    with server_of(toy_model()) as server:
        yield server


@pytest.fixture(scope="module")
def training():
    """A server of a model in training, and the restarts that came: ``(server, came)``."""
    came = []
    with server_of(toy_model(), restart=Restart("secret", came.append)) as server:
        yield server, came


@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
@pytest.mark.parametrize("reader", READERS)
def test_a_layer_is_the_model_over_the_whole_under_the_chain_of_its_url(serve_models, word, reader):
    model = toy_model(forward=Counted((1.0, -2.0)))
    server = serve_models(model)
    found = READERS[reader](f"{server.url}/{layer_name('toy', chain(SIGMOID))}/{word}/s0", word)
    expected = 1 / (1 + np.exp(-whole(RAW, (1.0, -2.0))))
    assert found.shape == (2, *RAW.shape)
    assert np.abs(found - expected).max() <= 1e-5


def test_zarr_without_a_number_is_zarr_v2(serve_models):
    server = serve_models(toy_model())
    name = layer_name("toy", chain())
    for file in (".zattrs", "s0/.zarray", "s0/1/1/1/1"):
        assert ask(server, f"/{name}/zarr/{file}")[2] == ask(server, f"/{name}/zarr2/{file}")[2]


def older(server, name, index, channels, dtype=np.float32):
    """A chunk at the older address, decoded: z, y, x, c."""
    status, _, body = ask(server, f"/{name}/s0/{'.'.join(map(str, index))}.0")
    assert status == 200, body
    return np.frombuffer(numcodecs.Blosc().decode(body), dtype).reshape(8, 8, 8, channels)


def test_the_older_address_has_the_same_voxels_channel_last(serve_models):
    import zarr

    server = serve_models(toy_model(forward=Counted((1.0, 3.0))))
    name = layer_name("toy", chain())
    found = zarr.open_array(f"{server.url}/{name}/s0", mode="r", zarr_format=2)[...]
    assert np.abs(found - np.moveaxis(whole(RAW, (1.0, 3.0)), 0, -1)).max() <= 1e-6
    first = zarr.open_array(f"{server.url}/{name}/zarr/s0", mode="r", zarr_format=2)[...]
    assert np.array_equal(np.moveaxis(found, -1, 0), first)


def test_an_edge_chunk_of_the_older_address_is_of_full_size(serve_models):
    server = serve_models(toy_model())
    found = older(server, layer_name("toy", chain()), (2, 2, 2), 1)
    expected = np.zeros((8, 8, 8))
    expected[:5, :2, :7] = whole(RAW)[0, 16:, 16:, 16:]
    assert np.abs(found[..., 0] - expected).max() <= 1e-6


@pytest.mark.parametrize(
    ("voxel", "corner", "translation"),
    [
        ((8, 8, 8), (0, 0, 0), [4, 4, 4, 0]),
        ((8, 8, 8), (-4, -4, -4), [0, 0, 0, 0]),
        ((10, 10, 10), (-5, -5, -5), [0, 0, 0, 0]),
        ((8.5, 8.5, 8.5), (-2.62, 3.4, 0), [2, 7, 4, 0]),
    ],
    ids=["origin", "corner", "relabelled", "fractional"],
)
def test_metadata_of_the_older_address(serve_models, voxel, corner, translation):
    model = toy_model(raw=RAW[:8, :8, :8], voxel_size_nm=voxel, corner_nm=corner)
    server = serve_models(model)
    name = layer_name("toy", chain())
    assert json.loads(ask(server, f"/{name}/.zattrs")[2]) == {
        "multiscales": [
            {
                "version": "0.4",
                "name": name,
                "axes": [
                    {"name": "z", "type": "space", "unit": "nanometer"},
                    {"name": "y", "type": "space", "unit": "nanometer"},
                    {"name": "x", "type": "space", "unit": "nanometer"},
                    {"name": "c", "type": "channel"},
                ],
                "datasets": [
                    {
                        "path": "s0",
                        "coordinateTransformations": [
                            {"type": "scale", "scale": [8, 8, 8, 1]},
                            {"type": "translation", "translation": translation},
                        ],
                    }
                ],
            }
        ]
    }
    assert json.loads(ask(server, f"/{name}/s0/.zarray")[2]) == {
        "zarr_format": 2,
        "shape": [8, 8, 8, 1],
        "chunks": [8, 8, 8, 1],
        "dtype": "<f4",
        "compressor": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0},
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }


def test_data_read_as_if_at_the_models_voxel_size_is_placed_by_its_own(serve_models):
    server = serve_models(toy_model(voxel_size_nm=(10.4, 10.4, 10.4), corner_nm=(-5.2, 0, 2.6)))
    data = json.loads(ask(server, f"/{layer_name('toy', chain())}/zarr/.zattrs")[2])
    scale, translation = data["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    assert scale["scale"] == [1, 10.4, 10.4, 10.4]
    assert np.allclose(translation["translation"], [0, 0, 5.2, 7.8])


def test_every_chunk_is_computed_with_the_chain_in_its_own_url(serve_models):
    """Not with that of the layer whose metadata was asked for last."""
    server = serve_models(toy_model())
    names = [layer_name("toy", chain()), layer_name("toy", chain(HALF))]
    for name in [*names, names[0]]:
        ask(server, f"/{name}/.zattrs")
    plain, thresholded = older(server, names[0], (0, 0, 0), 1), older(server, names[1], (0, 0, 0), 1, np.uint8)
    assert np.abs(plain[..., 0] - whole(RAW)[0, :8, :8, :8]).max() <= 1e-6
    assert np.array_equal(thresholded, plain > 0.5)


def test_another_postprocessing_computes_no_forward(serve_models):
    forward = Counted()
    server = serve_models(toy_model(forward=forward))
    older(server, layer_name("toy", chain()), (0, 0, 0), 1)
    assert forward.count == 1
    older(server, layer_name("toy", chain(HALF)), (0, 0, 0), 1, np.uint8)
    ask(server, f"/{layer_name('toy', chain(SIGMOID))}/zarr/s0/0/0/0/0")
    assert forward.count == 1
    ask(server, f"/{layer_name('toy', chain(norm=False))}/zarr/s0/0/0/0/0")
    assert forward.count == 2


def test_equal_chains_written_differently_compute_once(serve_models):
    forward = Counted()
    server = serve_models(toy_model(forward=forward))
    spelled = [{"name": "MinMaxNormalizer", "min_value": low, "max_value": 255} for low in (0, "0.0", 0.0)]
    for step in spelled:
        name = layer_name("toy", PipelineSpec.from_steps_data([step], []))
        assert ask(server, f"/{name}/zarr/s0/0/0/0/0")[0] == 200
    assert forward.count == 1


def test_other_weights_are_computed_anew_and_answered_at_the_same_address(serve_models):
    server = serve_models(toy_model())
    name = layer_name("toy", chain())
    before = older(server, name, (0, 0, 0), 1)
    trained = toy_model(forward=Counted((5.0,)), version="2")
    server.app.weights_changed("toy", trained, trained.prediction(trained.chain))
    assert np.allclose(older(server, name, (0, 0, 0), 1), 5 * before, atol=1e-5)
    assert json.loads(ask(server, "/__control__/model_info")[2])["version"] == "2"


@pytest.mark.parametrize(
    "expression", ["9**9**9", "np.ones((9,)*9)", "().__class__", "__import__('os').system('true')"]
)
def test_an_expression_that_is_no_plain_arithmetic_computes_nothing(serve_models, expression):
    forward = Counted()
    server = serve_models(toy_model(forward=forward))
    spec = PipelineSpec.from_steps_data([{"name": "LambdaNormalizer", "expression": expression}], [])
    status, _, body = ask(server, f"/{layer_name('toy', spec)}/zarr/s0/0/0/0/0")
    assert (status, forward.count) == (400, 0)
    assert len(body.splitlines()) == 1
    assert expression.encode() in body


def test_an_expression_that_multiplies_memory_computes_nothing(serve_models):
    forward = Counted()
    server = serve_models(toy_model(forward=forward))
    bomb = "+".join(["x[:,None,:,None,:,None]*x[None,:,None,:,None,:]"] * 3)
    spec = PipelineSpec.from_steps_data([{"name": "LambdaNormalizer", "expression": bomb}], [])
    status, _, body = ask(server, f"/{layer_name('toy', spec)}/zarr/s0/0/0/0/0")
    assert (status, forward.count, len(body.splitlines())) == (400, 0, 1)


def refused_once(server, forward, name, status, *words):
    for path in ("zarr/.zattrs", "zarr/s0/0/0/0/0", "zarr3/zarr.json", ".zattrs", "s0/.zarray", "s0/0.0.0.0"):
        found, headers, body = ask(server, f"/{name}/{path}")
        assert found == status, (path, body)
        assert len(body.splitlines()) == 1
        assert headers["cache-control"] == "no-store"
        for word in words:
            assert word in body.decode()
    assert forward.count == 0


def test_a_tampered_blob_is_one_clear_error_and_computes_nothing(serve_models):
    forward = Counted()
    server = serve_models(toy_model(forward=forward))
    digest = chain().digest()
    tampered = f"toy__CFLOW_ARGS__{chain(HALF).to_url_blob(digest=digest)}__CFLOW_ARGS__"
    refused_once(server, forward, tampered, 400, "changed", digest)
    cut = layer_name("toy", chain())
    refused_once(server, forward, cut[:-20] + "__CFLOW_ARGS__", 400, "URL")
    refused_once(server, forward, cut.removesuffix("__CFLOW_ARGS__"), 400, "malformed")
    unknown = PipelineSpec.from_steps_data([{"name": "MinMaxNormaliser"}], [])
    refused_once(server, forward, layer_name("toy", unknown), 400, "MinMaxNormaliser", "MinMaxNormalizer")


@pytest.mark.parametrize("own", [None, "http://127.0.0.1:5000"])
def test_a_blob_that_names_a_foreign_dashboard_is_refused(serve_models, own):
    forward = Counted()
    server = serve_models(toy_model(forward=forward), dashboard=Dashboard(own))
    name = layer_name("toy", chain(), dashboard_url="http://evil.example:5000")
    refused_once(server, forward, name, 403, "dashboard", "evil.example")


def test_only_so_many_layers_are_kept(serve_models):
    server = serve_models(toy_model())
    for n in range(LAYERS + 5):
        name = layer_name("toy", chain(("ThresholdPostprocessor", {"threshold": n})))
        assert ask(server, f"/{name}/.zattrs")[0] == 200
    assert len(server.app._layers) == LAYERS


def test_a_layer_with_more_channels_than_the_chain_knows_is_refused_in_words(serve_models):
    server = serve_models(toy_model())
    name = layer_name("toy", chain(("ChannelSelection", {"channels": "5"})))
    status, _, body = ask(server, f"/{name}/zarr/s0/0/0/0/0")
    assert status in (400, 500)
    assert b"hannel" in body


def test_of_two_models_a_layer_names_its_own(serve_models):
    server = serve_models(toy_model("a"), toy_model("b", Counted((2.0,))))
    one, two = (older(server, layer_name(name, chain()), (0, 0, 0), 1) for name in ("a", "b"))
    assert np.allclose(two, 2 * one, atol=1e-6)
    status, _, body = ask(server, f"/{layer_name('c', chain())}/.zattrs")
    assert (status, b"'c'" in body) == (400, True)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_prediction_that_is_gone_takes_its_layers_along(serve_models, how):
    model, other = toy_model("a"), toy_model("b")
    server = serve_models(model, other)
    name = layer_name("a", chain())
    assert ask(server, f"/{name}/.zattrs")[0] == 200
    if how == "removed":
        server.app.remove("a")
    else:
        server.app.add("a", other.source)
    assert ask(server, "/__control__/model_info?model=a")[0] == 404
    assert json.loads(ask(server, "/__control__/model_info")[2])["models"] == ["b"]
    assert ask(server, "/a/.zattrs")[0] == 404
    assert ask(server, f"/{name}/.zattrs")[0] == 400
    server.app.remove("b")
    assert ask(server, "/__control__/model_info")[0] == 404
    assert ask(server, f"/{name}/.zattrs")[0] == 400


def test_statistics_of_the_whole_volume_are_the_same_in_every_chunk(serve_models):
    import zarr

    server = serve_models(toy_model())
    spec = PipelineSpec.from_steps_data([{"name": "WholeVolumeStandardizer"}], [])
    found = zarr.open_array(f"{server.url}/{layer_name('toy', spec)}/zarr/s0", mode="r", zarr_format=2)[...]
    raw = RAW.astype(np.float64)
    padded = np.pad((raw - raw.mean()) / raw.std(), 1)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3)).mean((-3, -2, -1))
    assert np.abs(found[0] - expected).max() <= 1e-5


# What the server says of itself


def test_model_info(serve_models):
    server = serve_models(toy_model(forward=Counted((0.0, 1.0)), voxel_size_nm=(8, 10.5, 8)))
    status, headers, body = ask(server, "/__control__/model_info")
    found = json.loads(body)
    least, most = found.pop("output_min"), found.pop("output_max")
    assert (status, headers["access-control-allow-origin"], headers["content-type"]) == (200, "*", "application/json")
    assert least < 0 < most
    assert found == {
        "output_channels": 2,
        "channels": ["c0", "c1"],
        "write_shape": [64, 64, 64],
        "read_shape": [80, 80, 80],
        "output_voxel_size": [8, 8, 8],
        "input_voxel_size": [8, 8, 8],
        "effective_output_voxel_size": [8, 10.5, 8],
        "has_channel": True,
        "output_axes": ["c", "z", "y", "x"],
        "available": True,
        "output_class": "unbounded",
        "engine": "chunkmirage",
        "server": "chunkloom",
        "input_resampled_from": None,
        "input_relabelled_from": [8, 10.5, 8],
        "name": "toy",
        "device": "cpu",
        "version": "1",
        "input_shape": [10, 10, 10],
        "output_shape": [8, 8, 8],
        "input_channels": 1,
        "output_dtype": "float32",
        "chain": {"input_norm": [], "postprocess": []},
        "chain_source": "none",
        "models": ["toy"],
    }
    assert b'"read_shape": [\n    80,' in body  # whole numbers as such
    assert ask(server, "/__control__/output_probe")[2] == body


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 307),
        ("GET", "/__control__/model_info", 200),
        ("HEAD", "/__control__/model_info", 200),
        ("GET", "/__control__/output_probe", 200),
        ("OPTIONS", "/__control__/model_info", 204),
        ("POST", "/__control__/model_info", 405),
        ("GET", "/__control__/restart", 405),
        ("POST", "/__control__/restart", 501),
        ("GET", "/__control__/other", 404),
        ("GET", "/__control__", 404),
        ("GET", "/healthz", 200),
        ("GET", "/toy/zarr/.zattrs", 200),
        ("GET", "/toy/zarr2/.zattrs", 200),
        ("GET", "/toy/zarr3/zarr.json", 200),
        ("GET", "/toy/n5/attributes.json", 200),
        ("GET", "/toy/precomputed/info", 422),
        ("GET", "/toy/.zattrs", 200),
        ("GET", "/toy/.zgroup", 200),
        ("GET", "/toy/s0/.zarray", 200),
        ("GET", "/toy/s0/0.0.0.0", 200),
        ("GET", "/toy/s0/0.0.0.1", 404),
        ("GET", "/toy/s1/0.0.0.0", 404),
        ("GET", "/toy/s0/9.0.0.0", 404),
        ("GET", "/other/.zattrs", 404),
        ("POST", "/toy/.zattrs", 405),
        ("GET", "/api/volumes", 200),
        ("GET", "/metrics", 200),
    ],
)
def test_the_addresses_of_a_model_server(toy_server, method, path, status):
    found, headers, body = ask(toy_server, path, method=method)
    if path == "/toy/precomputed/info":
        status = found if found in (200, 422) else status  # float32 is for the format to say
    assert found == status, body
    if path == "/":
        assert headers["location"] == "/__control__/model_info"


# Restarts


def restart(server, token=None, body=b'{"restart": true, "params": {"num_epochs": 3}}', **headers):
    given = {"Content-Type": "application/json", **headers}
    if token is not None:
        given["X-Restart-Token"] = token
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    with contextlib.closing(connection):
        connection.request("POST", "/__control__/restart", body=body, headers=given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_restart_with_the_token_reaches_the_trainer(training):
    server, came = training
    came.clear()
    assert restart(server, "secret") == (200, {"success": True})
    assert came == [{"restart": True, "params": {"num_epochs": 3}}]


@pytest.mark.parametrize(
    ("token", "body", "headers", "status"),
    [
        (None, b'{"restart": true}', {}, 401),
        ("secre", b'{"restart": true}', {}, 401),
        ("secrets", b'{"restart": true}', {}, 401),
        ("", b'{"restart": true}', {}, 401),
        ("secret", b"{", {}, 409),
        ("secret", b"[]", {}, 409),
        ("secret", b'{"restart": 1}', {}, 409),
        ("secret", b'{"restart": true, "params": []}', {}, 409),
        ("secret", b"[" * 5000, {}, 409),
        ("secret", b" " * (1 << 20) + b"{}", {}, 413),
        ("secret", b'{"restart": true}', {"Origin": "http://evil.example"}, 403),
        ("secret", b'{"restart": true}', {"Host": "evil.example"}, 403),
    ],
    ids=[
        "no-token",
        "short-token",
        "long-token",
        "empty-token",
        "no-json",
        "no-object",
        "not-true",
        "no-parameters",
        "deep",
        "large",
        "foreign-page",
        "foreign-host",
    ],
)
def test_a_restart_that_is_refused_reaches_nobody(training, token, body, headers, status):
    server, came = training
    came.clear()
    found, answered = restart(server, token, body, **headers)
    assert (found, answered["success"], came) == (status, False, [])
    assert answered["error"]


@pytest.mark.parametrize(
    ("failure", "status"),
    [(ConflictError("training has begun"), 409), (RuntimeError("no disk"), 500)],
    ids=["409", "500"],
)
def test_a_restart_that_fails_says_why(serve_models, failure, status):
    def fail(request):
        raise failure

    server = serve_models(toy_model(), restart=Restart("secret", fail))
    found, answered = restart(server, "secret")
    assert (found, str(failure) in answered["error"]) == (status, True)


# Equivalences


@pytest.fixture
def dashboard():
    """A dashboard that keeps what it is told: ``(url, posts)``."""
    posts = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posts.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", posts
        running.shutdown()


LABELS = chain(
    ("ThresholdPostprocessor", {"threshold": 0.5}),
    ("LabelPostprocessor", {}),
    ("MortonSegmentationRelabeling", {}),
    ("SimpleBlockwiseMerger", {}),
)


def test_objects_over_chunk_borders_are_told_to_the_dashboard_that_started_the_server(serve_models, dashboard):
    url, posts = dashboard
    raw = np.zeros((16, 8, 8), np.uint8)
    raw[2:14, 2:6, 2:6] = 255
    server = serve_models(toy_model(raw=raw), dashboard=Dashboard(url))
    name = layer_name("toy", LABELS, dashboard_url=f"{url}/s3cret")
    chunks = [ask(server, f"/{name}/zarr/s0/0/{z}/0/0") for z in (0, 1)]
    assert [status for status, _, _ in chunks] == [200, 200]
    end = time.monotonic() + 10
    while not posts and time.monotonic() < end:
        time.sleep(0.01)
    ((path, body),) = posts
    assert path == "/s3cret/update/equivalences"
    assert body["dataset"] == f"{name}/zarr"
    ids = sorted(int(older(server, name, (z, 0, 0), 1, np.uint64).max()) for z in (0, 1))
    assert body["equivalences"] == [ids]
