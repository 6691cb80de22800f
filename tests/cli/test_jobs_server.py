"""A model server as a job runs it: where it says it is, on which interfaces, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from chunkloom.chain.spec import PipelineSpec
from chunkloom.serving.launch import server_argv_for, server_environment, shell_line
from chunkloom.serving.protocol import layer_name
from chunkloom.serving.run import public_address

from .test_bad_input import model

CHAIN = PipelineSpec.from_steps_data([{"name": "MinMaxNormalizer"}], [])


@pytest.fixture
def em(tmp_path):
    import zarr

    array = zarr.create_array(
        tmp_path / "em.zarr", shape=(20, 20, 20), chunks=(10, 10, 10), dtype="uint8", zarr_format=2
    )
    array[:] = np.random.default_rng(1).integers(0, 255, (20, 20, 20))
    return tmp_path / "em.zarr"


@pytest.fixture
def job(tmp_path, em):
    """Start `launch`'s line in a shell, as a scheduler does: ``job(**environment) -> (process, ready)``."""
    processes = []
    model(tmp_path / "one")

    def start(variable="CHUNKLOOM_READY_FILE", **environment):
        file = tmp_path / "made.ready"
        line = shell_line(server_argv_for("onnx", {"path": str(tmp_path / "one"), "name": "one"}, str(em)))
        process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, variable: str(file), "LSB_JOBID": "4711", **environment},
        )
        processes.append(process)
        end = time.monotonic() + 60
        while not file.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end, "no ready file"
            time.sleep(0.02)
        return process, json.loads(file.read_text())

    yield start
    for process in processes:
        process.terminate()
        process.communicate(timeout=20)


def status(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_job_announces_an_address_that_other_machines_reach(job, tmp_path):
    process, ready = job(**server_environment("http://dash:5000"))
    assert (ready["host"], ready["job_id"], ready["pid"]) == ("0.0.0.0", "4711", process.pid)
    assert ready["url"] == f"http://{public_address()}:{ready['port']}"
    assert process.stdout.readline() == f"CELLMAP_FLOW_SERVER_IP({ready['url']})CELLMAP_FLOW_SERVER_IP\n"
    assert status(f"{ready['url']}/__control__/model_info") == 200
    own, foreign = (layer_name("one", CHAIN, dashboard_url=url) for url in ("http://dash:5000/t", "http://evil:5000"))
    assert status(f"http://127.0.0.1:{ready['port']}/{own}/zarr/s0/0/0/0/0") == 200
    assert status(f"http://127.0.0.1:{ready['port']}/{foreign}/zarr/s0/0/0/0/0") == 403
    # Asked for by a name it does not have, as a page that rebinds DNS would.
    assert status(f"{ready['url']}/api/volumes") == 200
    assert status(f"{ready['url']}/api/volumes", Host="evil.example") == 403
    process.terminate()
    process.wait(20)
    assert not (tmp_path / "made.ready").exists()


def test_a_server_of_an_older_dashboard_answers_layers_that_name_it(job):
    _, ready = job("CELLMAP_FLOW_READY_FILE")
    name = layer_name("one", CHAIN, dashboard_url="http://older:5000")
    assert status(f"http://127.0.0.1:{ready['port']}/{name}/zarr/s0/0/0/0/0") == 200


def test_edits_are_off_in_a_job(em, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "chunkloom", "serve", em, "--allow-edit"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "CHUNKLOOM_READY_FILE": str(tmp_path / "r")},
    )
    assert (done.returncode, "edits are off" in done.stderr) == (2, True)


def test_the_marker_is_on_stdout_and_the_ready_data_alone_when_asked_for(em):
    for words, first in ([], "CELLMAP_FLOW_SERVER_IP("), (["--ready-file", "-"], '{"url"'):
        process = subprocess.Popen(
            [sys.executable, "-m", "chunkloom", "serve", str(em), *words], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout.readline().startswith(first)
        finally:
            process.terminate()
            rest, _ = process.communicate(timeout=20)
        assert rest == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--keyfile", "k"], "--certfile"),
        (["--certfile", "nothing.pem"], "nothing.pem"),
        (["--cache-predictions", "much"], "size"),
    ],
)
def test_options_that_do_not_fit(chunkloom, em, words, says):
    done = chunkloom("serve", em, *words)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert says in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("CHUNKLOOM_PREDICTION_CACHE_BYTES", "lots", "PREDICTION_CACHE_BYTES"),
        ("CELLMAP_FLOW_RAW_CACHE_BYTES", "-1", "RAW_CACHE_BYTES"),
        ("CHUNKLOOM_DASHBOARD_URL", "dash:5000", "dashboard address"),
    ],
)
def test_an_environment_that_does_not_fit(chunkloom, em, tmp_path, monkeypatch, variable, value, says):
    monkeypatch.setenv(variable, value)
    done = chunkloom("serve", em, "--model", model(tmp_path / "one"))
    assert done.returncode == 2
    assert says in done.stderr.strip().splitlines()[-1]
