"""Who may ask, and what may be opened: the rules, without a server."""

from __future__ import annotations

import os

import pytest

from chunkloom.errors import AccessError, ParameterError
from chunkloom.serving.access import ApiOptions, SourceRules
from chunkloom.serving.guard import MAX_BODY_BYTES, Guard


@pytest.fixture
def root(tmp_path):
    for name in ("data/a.zarr/em", "database", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/out").symlink_to(tmp_path / "secret")
    (tmp_path / "alias").symlink_to(tmp_path / "data")
    return tmp_path


@pytest.fixture
def rules(root):
    return SourceRules.parse([str(root / "data"), "https://Host.example/volumes/", "s3://bucket/a", "http://h:9000"])


@pytest.mark.parametrize(
    ("typed", "opened"),
    [
        ("{root}/data", "{root}/data"),
        ("{root}/data/a.zarr/em", "{root}/data/a.zarr/em"),
        ("{root}/data/../data/a.zarr/", "{root}/data/a.zarr"),
        ("{root}/alias/a.zarr", "{root}/data/a.zarr"),
        ("zarr3://{root}/data/a.zarr", "zarr3://{root}/data/a.zarr"),
        ("{root}/data/a.zarr|zarr2:em", "zarr2://{root}/data/a.zarr/em"),
        ("{root}/data/x.h5::/raw", "hdf5://{root}/data/x.h5::raw"),
        ("http://h:9000/x.h5", "hdf5://http://h:9000/x.h5"),
        ("http://h:9000/x.TIF", "tiff://http://h:9000/x.TIF"),
        ("hdf5://http://h:9000/x", "hdf5://http://h:9000/x"),
        ("http://h:9000/x::/raw", "hdf5://http://h:9000/x::raw"),
        ("{root}/data/not there", "{root}/data/not there"),
        ("https://host.example/volumes", "https://host.example/volumes"),
        ("HTTPS://HOST.example:443/volumes/a.zarr/", "https://host.example/volumes/a.zarr"),
        ("https://host.example/volumes/a%20b", "https://host.example/volumes/a b"),
        ("precomputed://https://host.example/volumes/x", "precomputed://https://host.example/volumes/x"),
        ("https://host.example/volumes/a.zarr|zarr3:em", "zarr3://https://host.example/volumes/a.zarr/em"),
        ("http://h:9000/any", "http://h:9000/any"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("synthetic://em?shape=64", "synthetic://em?shape=64"),
    ],
)
def test_what_lies_below_an_allowed_place_is_opened_there(root, rules, typed, opened):
    assert rules.admitted(typed.format(root=root)) == opened.format(root=root)


REFUSED = [
    "/etc/passwd",
    "../../../../etc",
    "~/.ssh",
    "~root",
    "{root}",
    "{root}/database",
    "{root}/secret",
    "{root}/data/../secret",
    "{root}/data/out",
    "{root}/data/out/x.zarr",
    "{root}/data/a.zarr|zarr2:../../secret",
    "{root}/data/a.zarr|zarr2:em/../../../secret",
    "{root}/data/x|y",
    "{root}/data/../secret/x.h5::/raw",
    "{root}/data\\ /../../secret",
    "{root}/data/a\nb",
    "{root}/data/a\x00b",
    "/proc/self/root/etc",
    "file:///etc/passwd",
    "file://{root}/data/a.zarr",
    "FILE:///etc/passwd",
    "zarr://file:///etc",
    "zarr3:///etc",
    "n5://zarr2:///etc",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]:9000/any",
    "http://[::ffff:169.254.169.254]/any",
    "http://[fd00::1]/any",
    "http://2852039166/any",
    "http://0xa9fea9fe/any",
    "http://0251.0376.0251.0376/any",
    "http://localhost/any",
    "http://127.1/any",
    "http://0/any",
    "http://host.example/volumes",
    "https://host.example",
    "https://host.example/volumesx",
    "https://host.example/volumes/../private",
    "https://host.example/volumes/%2e%2e/private",
    "https://host.example/volumes/%252e%252e/private",
    "https://host.example/volumes/..%2fprivate",
    "https://host.example/volumes/..%5cprivate",
    "https://host.example/volumes/x%00",
    "https://host.example/volumes/x%0d%0aHost:%20evil",
    "https://host.example/volumes/x%3fq",
    "https://host.example/volumes/x?token=1",
    "https://host.example/volumes/x#frag",
    "https://host.example:8443/volumes",
    "https://host.example@169.254.169.254/volumes",
    "https://user:pass@host.example/volumes",
    "https://host.example\\@169.254.169.254/volumes",
    "https://host.example%40169.254.169.254/volumes",
    "https://host.example.evil.com/volumes",
    "https://host.example./volumes",
    "https://evil.com/https://host.example/volumes",
    "https://host.example/volumes|zarr3:../private",
    "https://host.example/volumes/x|zarr3:../../private",
    "https://evil.com|zarr3:x|zarr3:y",
    "https://host.example/volumes/a|b",
    "zarr://zarr2://http://169.254.169.254/",
    "http:///etc",
    "http://h:9000@evil.com/any",
    "http://h:9000:80/any",
    "http://h:09000/any",
    "s3://bucket2/a",
    "s3://bucket/ab",
    "s3://bucket/a/../b",
    "S3://other/a",
    "gs://bucket/a",
    "ftp://host/x",
    "gopher://host/x",
    "data:text/plain,x",
    "javascript:alert(1)",
    " synthetic://em",
    "SYNTHETIC://em",
    "synthetic:/em",
    "synthetic://em\n",
    "zarr://synthetic://em",
    "",
    " ",
]


@pytest.mark.parametrize("typed", REFUSED, ids=[repr(text) for text in REFUSED])
def test_everything_else_is_refused(root, rules, typed):
    with pytest.raises((AccessError, ParameterError)):
        rules.admitted(typed.format(root=root))


def test_nothing_but_made_up_data_is_opened_by_default(root):
    rules = SourceRules()
    assert rules.admitted("synthetic://em") == "synthetic://em"
    for source in (str(root / "data"), "https://host.example/volumes", "."):
        with pytest.raises(AccessError, match="--allow-root"):
            rules.admitted(source)


def test_a_refusal_is_the_same_whether_the_file_is_there_or_not(root, rules):
    told = []
    for name in ("secret", "nothing"):
        with pytest.raises(AccessError) as refused:
            rules.admitted(str(root / name))
        told.append(str(refused.value).replace(name, "NAME"))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "root",
    [
        "/no/such/folder",
        "https://user@host/x",
        "https://host/x?y",
        "https://host/../x",
        "ftp://host",
        "",
        "http://[::1]/",
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_at_start(root):
    with pytest.raises(ParameterError):
        SourceRules.parse([root])


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        ("fibsem-membrane", True),
        ("{root}/data/m.onnx", True),
        ("{root}/data/m.py", False),
        ("{root}/secret/m.onnx", False),
        ("{root}/data/out/m.onnx", False),
        ("unbundled", False),
        ('{{"type": "script", "script_path": "/x.py"}}', False),
        ({"type": "onnx", "path": "{root}/data/m.onnx"}, True),
        ({"type": "onnx", "path": "{root}/secret/m.onnx"}, False),
        ({"type": "ONNX", "path": "{root}/data/m.onnx"}, False),
        ({"type": "script", "script_path": "{root}/data/m.py"}, False),
        ({"type": "torchscript", "path": "{root}/data/m.pt"}, False),
        ({}, False),
    ],
)
def test_models_that_are_data_below_an_allowed_folder_are_loaded(root, rules, model, allowed):
    def filled(value):
        return value.format(root=root)

    model = filled(model) if isinstance(model, str) else {k: filled(v) for k, v in model.items()}
    options = ApiOptions(sources=rules)
    if allowed:
        assert options.admitted_model(model, ["fibsem-membrane"]) == model
    else:
        with pytest.raises(AccessError):
            options.admitted_model(model, ["fibsem-membrane"])


def test_code_models_need_allow_code_and_an_allowed_folder(root, rules):
    options = ApiOptions(sources=rules, allow_code=True)
    assert options.admitted_model(f"{root}/data/m.py", []) == f"{root}/data/m.py"
    with pytest.raises(AccessError):
        options.admitted_model(f"{root}/secret/m.py", [])
    with pytest.raises(AccessError):
        options.admitted_model({"type": "script", "script_path": f"{root}/secret/m.py"}, [])


def test_edits_without_a_token_cannot_be_allowed():
    with pytest.raises(ParameterError, match="CHUNKLOOM_TOKEN"):
        ApiOptions(allow_edit=True)


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "a\n"])
def test_a_token_that_no_header_can_carry_is_refused(token):
    with pytest.raises(ParameterError, match="token"):
        ApiOptions(token=token)


def test_the_token_is_not_shown_with_the_options():
    assert "hidden" not in repr(ApiOptions(token="hidden"))


def scope(method="GET", server=("127.0.0.1", 8000), **headers):
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": "/api/volumes", "headers": pairs, "server": server}


def status(guard, *args, **kw):
    refused = guard.refusal(scope(*args, **kw))
    return refused and refused.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8000", None),
        ("127.0.0.1", None),
        ("localhost:9999", None),
        ("LOCALHOST", None),
        ("localhost.", None),
        ("[::1]:8000", None),
        ("node7:8000", None),
        ("10.0.0.5:8000", None),
        ("evil.com", 403),
        ("evil.com:8000", 403),
        ("localhost.evil.com", 403),
        ("127.0.0.1.evil.com", 403),
        ("evil.com#127.0.0.1", 403),
        ("127.0.0.1@evil.com", 403),
        ("127.0.0.1:8000@evil.com", 403),
        ("127.0.0.1, evil.com", 403),
        ("10.0.0.6", 403),
        ("2130706433", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("::1", 403),
        ("localhost:", 403),
        ("localhost:99999999", 403),
        ("", 403),
        ("node7\t", None),
    ],
)
def test_a_server_answers_to_its_own_names_only(host, expected):
    guard = Guard(ApiOptions(hosts=("node7",)))
    assert status(guard, server=("10.0.0.5", 8000), host=host) == expected


def test_a_name_that_the_client_gave_is_not_the_servers():
    guard = Guard(ApiOptions())
    assert status(guard, server=("evil.com", 80), host="evil.com") == 403


def test_no_host_and_two_hosts_are_refused():
    guard = Guard(ApiOptions())
    assert status(guard) == 400
    twice = scope(host="localhost")
    twice["headers"].append((b"host", b"localhost"))
    assert guard.refusal(twice).status == 400


def test_hosts_are_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_ALLOWED_HOSTS", "proxy.example, Other , fd00::7")
    guard = Guard(ApiOptions())
    for host in ("proxy.example:443", "other", "[fd00::7]:1"):
        assert status(guard, host=host) is None
    assert status(guard, host="third") == 403


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8000", None),
        ("https://proxy.example", None),
        ("http://localhost", 403),
        ("http://localhost:9000", 403),
        ("https://localhost:8000", None),
        ("http://127.0.0.1:8000", 403),
        ("http://evil.com", 403),
        ("http://evil.com:8000", 403),
        ("http://localhost:8000.evil.com", 403),
        ("http://localhost:8000@evil.com", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
        ("chrome-extension://localhost:8000", 403),
    ],
)
def test_pages_of_other_origins_are_refused(origin, expected):
    guard = Guard(ApiOptions(hosts=("proxy.example",)))
    assert status(guard, host="localhost:8000", origin=origin) == expected


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "X"])
def test_edits_are_off_unless_allowed_even_with_the_token(method):
    guard = Guard(ApiOptions(token="secret"))
    assert status(guard, method, host="localhost", authorization="Bearer secret") == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": "Bearer secret"}, None),
        ({"authorization": "bearer secret"}, None),
        ({"x_chunkloom_token": "secret"}, None),
        ({}, 401),
        ({"authorization": "secret"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer secre"}, 401),
        ({"authorization": "Bearer secret2"}, 401),
        ({"authorization": "Bearer SECRET"}, 401),
        ({"authorization": "Bearer sécret"}, 401),
        ({"x_chunkloom_token": ""}, 401),
        ({"x_chunkloom_token": "Bearer secret"}, 401),
        ({"cookie": "token=secret"}, 401),
    ],
)
def test_edits_need_the_whole_token(headers, expected):
    guard = Guard(ApiOptions(allow_edit=True, token="secret"))
    assert status(guard, "POST", host="localhost", **headers) == expected


def test_tokens_are_compared_in_constant_time(monkeypatch):
    import hmac

    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)))
    Guard(ApiOptions(token="secret")).has_token(scope(x_chunkloom_token="guess"))
    assert compared == [(b"guess", b"secret")]


def test_no_token_matches_where_there_is_none():
    assert not Guard(ApiOptions()).has_token(scope(x_chunkloom_token="", authorization="Bearer "))


@pytest.mark.parametrize(
    ("length", "expected"), [(str(MAX_BODY_BYTES), None), (str(MAX_BODY_BYTES + 1), 413), ("9" * 40, 413), ("-1", 400)]
)
def test_a_body_announced_too_large_is_refused_before_it_is_read(length, expected):
    assert status(Guard(ApiOptions()), host="localhost", content_length=length) == expected


def test_paths_are_resolved_when_they_are_asked_for(root, rules):
    """A link put below an allowed folder later on leads nowhere either."""
    link = root / "data/later"
    link.symlink_to("/etc")
    with pytest.raises(AccessError):
        rules.admitted(f"{link}/passwd")
    assert os.path.exists(link)
