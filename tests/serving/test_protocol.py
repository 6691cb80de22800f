"""Layer names as they travel in URLs, and whose dashboard hears of equivalences."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import AccessError, ParameterError
from chunkloom.serving.protocol import Dashboard, layer_name, parse_layer_name

CHAIN = PipelineSpec.from_json_data(
    {
        "input_norm": [{"name": "MinMaxNormalizer"}],
        "postprocess": [{"name": "ThresholdPostprocessor", "threshold": 0.5}],
    }
)


def blob(**data):
    text = json.dumps({"input_norm": [], "postprocess": [], **data}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_a_layer_name_is_the_model_and_the_chain_in_base64():
    name = layer_name("mito", CHAIN, dashboard_url="http://host:5000")
    model, text, after = name.split("__CFLOW_ARGS__")
    data = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    canonical = json.dumps(CHAIN.to_json_data(), sort_keys=True, separators=(",", ":"))
    assert (model, after) == ("mito", "")
    assert data == {
        **CHAIN.to_json_data(),
        "dashboard_url": "http://host:5000",
        "digest": hashlib.sha256(canonical.encode()).hexdigest()[:16],
    }


def test_a_layer_name_is_read_back():
    found = parse_layer_name(layer_name("mito", CHAIN, dashboard_url="http://host:5000"))
    assert (found.model, found.chain, found.dashboard_url) == ("mito", CHAIN, "http://host:5000")


def test_a_name_without_markers_is_a_model_under_its_own_chain():
    found = parse_layer_name("mito")
    assert (found.model, found.chain, found.dashboard_url) == ("mito", None, None)


def test_an_older_blob_with_a_time_instead_of_a_digest_is_read():
    found = parse_layer_name(f"m__CFLOW_ARGS__{blob(time=1.5, dashboard_url='')}__CFLOW_ARGS__")
    assert (found.chain, found.dashboard_url, found.extras) == (PipelineSpec(), None, {"time": 1.5})


@pytest.mark.parametrize(
    "name",
    [
        f"m__CFLOW_ARGS__{blob()}",
        f"m__CFLOW_ARGS__{blob()}__CFLOW_ARGS__x",
        f"__CFLOW_ARGS__{blob()}__CFLOW_ARGS__",
        f"m__CFLOW_ARGS__{blob()}__CFLOW_ARGS____CFLOW_ARGS__",
        "m__CFLOW_ARGS__!!!__CFLOW_ARGS__",
        f"m__CFLOW_ARGS__{blob()[:-3]}__CFLOW_ARGS__",
        f"m__CFLOW_ARGS__{blob(digest='0123456789abcdef')}__CFLOW_ARGS__",
        f"m__CFLOW_ARGS__{blob(dashboard_url=['x'])}__CFLOW_ARGS__",
    ],
    ids=["one-marker", "text-after", "no-model", "three-markers", "no-base64", "cut", "changed", "list-for-dashboard"],
)
def test_a_damaged_layer_name_is_refused(name):
    with pytest.raises(ParameterError):
        parse_layer_name(name)


@pytest.mark.parametrize("model", ["a/b", "a?b", "a__CFLOW_ARGS__b", "", "a\nb"])
def test_a_model_whose_name_cannot_stand_in_a_path_is_refused(model):
    with pytest.raises(ParameterError):
        layer_name(model, CHAIN)


@pytest.mark.parametrize(
    ("own", "named", "goes_to"),
    [
        ("http://host:5000", "http://host:5000", "http://host:5000"),
        ("http://host:5000/", "http://HOST:5000/t0ken_-", "http://host:5000/t0ken_-"),
        ("http://host", "http://host:80", "http://host:80"),
        ("https://host/user/a", "https://host/user/a/t", "https://host:443/user/a/t"),
        ("http://[::1]:5000", "http://[::1]:5000", "http://[::1]:5000"),
        ("http://host:5000", None, None),
        (None, None, None),
    ],
)
def test_the_dashboard_that_started_the_server_hears_of_equivalences(own, named, goes_to):
    assert Dashboard(own).admitted(named) == goes_to


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ("http://host:5000", "http://evil:5000"),
        ("http://host:5000", "http://host:5001"),
        ("http://host:5000", "https://host:5000"),
        ("http://host:5000", "http://host.evil:5000"),
        ("https://host/user/a", "https://host/user/ab"),
        ("https://host/user/a", "https://host/user/b"),
        (None, "http://host:5000"),
    ],
)
def test_another_dashboard_is_refused(own, named):
    with pytest.raises(AccessError, match="dashboard"):
        Dashboard(own).admitted(named)


@pytest.mark.parametrize(
    "named",
    [
        "host:5000",
        "ftp://host",
        "http://",
        "http://host:x",
        "http://host:5000@evil",
        "http://a:b@host:5000",
        "http://host:5000/?next=http://evil",
        "http://host:5000/#f",
        "http://host:5000/a/../../b",
        "http://host:5000/%2e%2e/b",
        "http://host:5000\\@evil",
        "http://host:5000/\r\nX: y",
        "http://host:5000/a b",
    ],
)
def test_a_dashboard_address_with_two_readings_is_refused(named):
    with pytest.raises(ParameterError, match="dashboard address"):
        Dashboard("http://host:5000").admitted(named)


def test_a_server_of_an_older_dashboard_answers_its_layers_and_tells_nobody():
    assert Dashboard(tolerant=True).admitted("http://anywhere:1") is None
