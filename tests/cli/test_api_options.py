"""The options of the REST API, on servers started as a person does."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request

import numpy as np
import pytest


@pytest.fixture
def source(tmp_path):
    import zarr

    zarr.save_array(str(tmp_path / "data/a.zarr"), np.zeros((8, 8, 8), np.uint8))
    return tmp_path / "data/a.zarr"


def ask(ready, path, method="GET", body=None, token=None):
    headers = {"Content-Type": "application/json"} | ({"X-Chunkloom-Token": token} if token else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(ready["url"] + path, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def ended(process):
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=30)


def test_edits_are_off_by_default_and_no_token_is_made(started, source):
    process, ready = started("serve", source)
    assert ask(ready, "/api/volumes") == 200
    assert ask(ready, "/api/volumes", "POST", {"name": "b", "source": str(source)}) == 403
    assert "token" not in "".join(ended(process))


def test_a_token_is_made_and_printed_for_edits(started, source):
    process, ready = started("serve", source, "--allow-edit", "--allow-root", source.parent)
    spec = {"name": "b", "source": str(source)}
    assert ask(ready, "/api/volumes", "POST", spec) == 401
    printed = []
    while not printed or not printed[-1].startswith("token"):
        printed.append(process.stderr.readline())
    token = re.fullmatch(r"token for edits: (\S{40,})\n", printed[-1])[1]
    assert ask(ready, "/api/volumes", "POST", spec, token) == 201
    assert ask(ready, "/b/zarr2/.zattrs") == 200
    assert ask(ready, "/api/volumes", "POST", {"name": "c", "source": "/etc"}, token) == 403


def test_a_token_given_is_used_and_never_printed(started, source, monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_TOKEN", "from-the-environment")
    process, ready = started("serve", source, "--allow-edit")
    assert ask(ready, "/api/cache", "DELETE", token="from-the-environment") == 200
    assert "from-the-environment" not in "".join(ended(process))
    process, ready = started("serve", source, "--allow-edit", "--token", "from-the-command-line")
    assert ask(ready, "/api/cache", "DELETE", token="from-the-environment") == 401
    assert ask(ready, "/api/cache", "DELETE", token="from-the-command-line") == 200
    assert "from-the-command-line" not in "".join(ended(process))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--allow-root", "/no/such/folder"], "/no/such/folder"),
        (["--allow-root", "https://user@host/x"], "user@host"),
        (["--allow-edit", "--token", "two words"], "token"),
        (["--allow-edit", "--token", ""], "token"),
    ],
    ids=lambda value: str(value),
)
def test_options_that_cannot_be_meant_are_refused_in_one_line(chunkloom, source, options, says):
    done = chunkloom("serve", source, *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
